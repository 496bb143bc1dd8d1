#ifndef FJ_ITERATORS_H
#define FJ_ITERATORS_H

#include <Python.h>

extern PyMethodDef fj_iterator_methods[];

#endif
