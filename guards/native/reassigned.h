/* Whether objects were given another `__dict__` or another class, of which CPython tells nobody.
 *
 * Both are done by setters that all objects share. They are replaced, once, by setters that count and call the ones
 * before. What goes around them is unseen: C code that writes to an object's header or calls PyObject_GenericSetDict. */
#ifndef FRAMEJIT_REASSIGNED_H
#define FRAMEJIT_REASSIGNED_H
#include <Python.h>
#include <stdint.h>

typedef enum { FJ_DICT, FJ_CLASS } fj_reassignment;

/* Does whatever gives an instance of this class another dictionary, or class, count? From then on it does. */
int fj_counts(PyTypeObject *type, fj_reassignment what);

/* Another number than before if anything was counted since, or is just happening. */
uint64_t fj_reassigned(void);

extern PyMethodDef fj_reassigned_methods[];

#endif
