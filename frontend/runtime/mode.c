/* The mode of a thread: switches the hook on, off and quiet, and watches the C stack while it is
 * on.
 */
#include "hook.h"

#include <pthread.h>

/* Until it is measured everything counts as low, so that the first use measures. */
_Thread_local ThreadMode thread_mode = {.stack_low = UINTPTR_MAX, .stack_end = UINTPTR_MAX};
Stance process_stance = STANCE_DEFAULT;

Installation installation;
PyObject *compiler_switch;

/* In a forked child the other threads are gone. The one left starts with the hook off, as it is
 * most likely a worker (a data loader's) that happened to be started from compiled code and never
 * returns there. */
static void
after_fork(void)
{
    thread_mode.current = NULL;
    installation.threads_on = 0;
    hook_count(0);
}

void
mode_init(void)
{
    if (installation.slot == NULL) {
        installation.slot = evaluator_slot(PyInterpreterState_Main());
        pthread_atfork(NULL, NULL, after_fork);
    }
}

static void
measure_stack(ThreadMode *mode)
{
    pthread_attr_t attributes;
    void *end = NULL;
    size_t size = 0;
    if (pthread_getattr_np(pthread_self(), &attributes) == 0) {
        pthread_attr_getstack(&attributes, &end, &size);
        pthread_attr_destroy(&attributes);
    }
    if (size == 0) {
        mode->stack_low = mode->stack_end = 0; /* unknown: the recursion limit has to do */
        return;
    }
    mode->stack_low = (uintptr_t)end + size / 4;
    mode->stack_end = (uintptr_t)end + size / 16;
}

/* CPython's budget is made for the whole stack at about this much a level; as the levels above were
 * given back, the budget has to shrink with what is left. */
enum { BYTES_PER_C_LEVEL = 800 };

int
stack_enter_low(PyThreadState *tstate, StackUse *use, uintptr_t here)
{
    ThreadMode *mode = &thread_mode;
    if (mode->stack_end == UINTPTR_MAX) {
        measure_stack(mode);
        if (here > mode->stack_low) {
            return 0;
        }
    }
    if (here <= mode->stack_end) {
        PyErr_SetString(PyExc_RecursionError, "maximum recursion depth exceeded (no C stack left)");
        return -1;
    }
    uintptr_t affordable = (here - mode->stack_end) / BYTES_PER_C_LEVEL;
    int left = c_levels_left(tstate);
    *use = (StackUse){left > 0 && affordable < (uintptr_t)left ? (int)affordable - left : 0, 1};
    return 0;
}

PyObject *
call_switching(Handle *handle, PyObject *function, PyObject *const *args, size_t nargsf,
               PyObject *kwnames)
{
    ThreadMode *mode = &thread_mode;
    Handle *outer = mode->current;
    Py_XINCREF(handle);
    mode_set_current(mode, handle);
    if (handle != NULL && PyFunction_Check(function)) {
        mode->pass_once = (PyCodeObject *)PyFunction_GET_CODE(function);
    }
    PyObject *result = call_vector(function, args, nargsf, kwnames);
    mode->pass_once = NULL; /* still set if the call failed before it had a frame */
    mode->release = mode->release_lifted = NULL;
    mode_set_current(mode, outer);
    Py_XDECREF(handle);
    return result;
}

PyObject *
call_quietly(PyObject *function, PyObject *const *args, size_t nargsf, PyObject *kwnames)
{
    ThreadMode *mode = &thread_mode;
    mode_enter_quiet(mode);
    PyObject *result = call_vector(function, args, nargsf, kwnames);
    mode_leave_quiet(mode);
    return result;
}
