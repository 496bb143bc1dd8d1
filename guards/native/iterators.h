#ifndef FJ_ITERATORS_H
#define FJ_ITERATORS_H

#include <Python.h>

/* The item that an iterator of a list, a tuple or a dictionary would give after `ahead` others,
 * without moving it: a new reference; NULL without an exception for other iterators, and where
 * there is none. */
PyObject *fj_peek(PyObject *iterator, Py_ssize_t ahead);

extern PyMethodDef fj_iterator_methods[];

#endif
