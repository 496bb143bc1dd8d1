/* The steps of a guard program, made of the tuples that Python hands over. Functions that return an
 * int raise and return -1 on an error. */
#ifndef FRAMEJIT_PROGRAM_BUILDER_H
#define FRAMEJIT_PROGRAM_BUILDER_H
#include "program.h"

/* A step that could not be read may be half built: it is cleared like others. */
int fj_read_step(PyObject *from, Step *step, Py_ssize_t temps);
void fj_clear_step(Step *step);

/* Numbers of temps, all below `temps`. */
int fj_read_temps(PyObject *from, uint16_t *into, Py_ssize_t temps);

/* Whether a run of the step adds a reference that is dropped at the end of the run. */
int fj_makes_reference(const Step *step);

#endif
