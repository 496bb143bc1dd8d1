/* A relation between numbers: the stack program of relation.py, run on 64-bit ints, and on Python's
 * numbers where these do not suffice. */
#ifndef FRAMEJIT_RELATION_H
#define FRAMEJIT_RELATION_H
#include <Python.h>
#include <stdint.h>

typedef struct fj_relation fj_relation;

/* From a tuple of (operation, argument); NULL with an exception. */
fj_relation *fj_relation_new(PyObject *code, Py_ssize_t symbols);
void fj_relation_free(fj_relation *relation);

/* Does it hold for temps[at[0]], temps[at[1]] ...? These must be ints, floats or bools, no subclass
 * of them; an error means no. Runs no Python code. */
int fj_relation_holds(const fj_relation *relation, PyObject *const *temps, const uint16_t *at,
                      int symbols);

#endif
