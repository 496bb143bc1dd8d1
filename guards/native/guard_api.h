/* What the guard evaluator offers to the dispatcher: a table of functions in a capsule. */
#ifndef FRAMEJIT_GUARD_API_H
#define FRAMEJIT_GUARD_API_H
#include <Python.h>

#define FRAMEJIT_GUARD_CAPSULE "framejit.guards.native._guards.api"

typedef struct {
    /* Exact type of the programs that `run` takes. */
    PyTypeObject *program_type;
    /* May the code guarded by `program` serve this frame? `slots` are the frame's argument slots
     * (borrowed, may hold NULL), `function` the frame's function (its globals, builtins and closure
     * are roots of sources). 1: yes, and *lifted is a new tuple of the program's lifted objects, or
     * NULL if it lifts none. 0: no. Never raises: an exception inside a check is cleared and means
     * no. */
    int (*run)(PyObject *program, PyObject *const *slots, Py_ssize_t nslots, PyObject *function,
               PyObject **lifted);
} framejit_guard_api;

#endif
