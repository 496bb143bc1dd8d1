/* Arming: what the stable steps of a program found, and the few words of memory that tell whether it is still so.
 *
 * A dictionary is known unchanged by its watcher (3.12 and later) or by its version tag, a class by its version. Which
 * class and which dictionary an object has are two pointers in it, compared after any object was given others, and at
 * every call for an object that may be another one at the same address. Where none of this tells - lists, sets, attributes
 * that watchers are blind for - the steps that looked at the container run again at every call. A sign of change by
 * itself means little: the steps that looked at that container run again, and if they find what they found before, all
 * is as before. Armings hold nothing that they found alive, but constants. */
#ifndef FRAMEJIT_ARMING_H
#define FRAMEJIT_ARMING_H
#include "program.h"

int fj_watch_init(void);

/* The arming for these anchors, if it holds; to be left after use. `temps` has the fresh ones. */
fj_arming *fj_arming_find(Program *program, Frame frame, PyObject *const *temps);
void fj_arming_leave(Program *program, fj_arming *arming);

/* Its temps: the stable ones filled, the fresh ones for the caller to fill. */
PyObject **fj_arming_temps(fj_arming *arming);

/* Write down what the stable steps found. Where there is no memory for it nothing happens. */
void fj_arm(Program *program, PyObject *const *temps);

/* How many places in memory a hit of the arming used last compares. */
Py_ssize_t fj_arming_compared(const Program *program);

int fj_armings_traverse(Program *program, visitproc visit, void *arg);
void fj_armings_drop(Program *program);

extern PyMethodDef fj_watch_methods[];

#endif
