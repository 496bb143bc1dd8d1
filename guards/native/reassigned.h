/* Whether objects were given another `__dict__` or class, or functions other code or defaults: no watcher tells of those.
 *
 * All of it is done by setters that CPython has once for all objects. They are replaced by setters that count and call
 * the ones before. What goes around them is unseen: C code that writes to an object itself or calls
 * PyObject_GenericSetDict, PyFunction_SetDefaults and their like. */
#ifndef FRAMEJIT_REASSIGNED_H
#define FRAMEJIT_REASSIGNED_H
#include <Python.h>
#include <stdint.h>

typedef enum { FJ_DICT, FJ_CLASS, FJ_FUNCTION } fj_reassignment;

/* Does whatever gives an instance of this class another dictionary, or class, or part of a function, count? From now on it
 * does. */
int fj_counts(PyTypeObject *type, fj_reassignment what);

/* Another number than before if anything was counted since, or is just happening. */
uint64_t fj_reassigned(void);

extern PyMethodDef fj_reassigned_methods[];

#endif
