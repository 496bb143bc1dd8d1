/* The frame evaluator (PEP 523): while a handle is current in this thread, frames at their start
 * are given to their site's entries. A hit is run in place, by swapping the frame's code object. */
#include "hook.h"

/* ---- evaluating a frame ---- */

/* Uses the evaluator that was installed before ours. */
static PyObject *
evaluate_below(PyThreadState *tstate, Frame *frame, int throwflag)
{
    ThreadMode *mode = &thread_mode;
    _PyFrameEvalFunction below = installation.below;
    if (below == NULL || mode->delegating == frame) {
        /* The second: whoever came over us took us for the evaluator under it. */
        return _PyEval_EvalFrameDefault(tstate, frame, throwflag);
    }
    Frame *outer = mode->delegating;
    mode->delegating = frame;
    PyObject *result = below(tstate, frame, throwflag);
    mode->delegating = outer;
    return result;
}

static PyObject *
evaluate(PyThreadState *tstate, Frame *frame, int throwflag)
{
    if (frame->owner != FRAME_OWNED_BY_THREAD) {
        /* A generator's: resuming costs C levels in plain Python too, and only the evaluator can
         * undo what the resuming did, so it is not for us to refuse. */
        return evaluate_below(tstate, frame, throwflag);
    }
    StackUse stack;
    if (stack_enter(tstate, &stack) < 0) {
        frame_dispose(tstate, frame);
        return NULL;
    }
    ThreadMode *mode = &thread_mode;
    Handle *outer = mode->current;
    if (stack.low) {
        /* Deep: without a hook the evaluator inlines the calls below and needs no more C stack for
         * them. */
        mode_set_current(mode, NULL);
    }
    PyObject *result = evaluate_below(tstate, frame, throwflag);
    if (stack.low) {
        mode_set_current(mode, outer);
    }
    stack_leave(tstate, &stack);
    return result;
}

/* ---- which frames ---- */

static int
is_candidate(ThreadMode *mode, Frame *frame, int throwflag)
{
    const int not_plain = CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR | CO_ITERABLE_COROUTINE;
    const int plain = CO_OPTIMIZED | CO_NEWLOCALS; /* not a module's or a class's body */
    if (throwflag || mode->delegating == frame || !frame_at_start(frame)) {
        return 0;
    }
    PyCodeObject *code = frame_code(frame);
    if (code == mode->pass_once) {
        mode->pass_once = NULL;
        if (mode->release != NULL) {
            Py_CLEAR(*mode->release); /* the frame has its own reference now */
        }
        if (mode->release_lifted != NULL) {
            Py_CLEAR(*mode->release_lifted);
        }
        mode->release = mode->release_lifted = NULL;
        return 0;
    }
    return (code->co_flags & (plain | not_plain)) == plain;
}

/* on_frame's answer for a code object new to this handle; NULL: let its frames through. A new
 * reference. */
static Site *
ask_on_frame(Handle *handle, PyCodeObject *code, PyFunctionObject *function)
{
    if (handle->on_frame == NULL || handle->on_frame == Py_None) {
        return NULL;
    }
    PyObject *on_frame = Py_NewRef(handle->on_frame);
    PyObject *args[] = {NULL, (PyObject *)handle, (PyObject *)code, (PyObject *)function};
    PyObject *site = call_quietly(on_frame, args + 1, 3 | PY_VECTORCALL_ARGUMENTS_OFFSET, NULL);
    if (site != NULL && site != Py_None && !Py_IS_TYPE(site, &Site_Type)) {
        PyErr_Format(PyExc_TypeError, "on_frame must return a Site or None, not %s",
                     Py_TYPE(site)->tp_name);
        Py_CLEAR(site);
    }
    if (site != NULL && site != Py_None && ((Site *)site)->nslots != argument_slots(code)) {
        PyErr_Format(PyExc_ValueError, "the site has %zd slots, %U has %d", ((Site *)site)->nslots,
                     code->co_name, argument_slots(code));
        Py_CLEAR(site);
    }
    if (site == NULL && PyErr_ExceptionMatches(PyExc_RecursionError)) {
        PyErr_Clear(); /* no stack left to decide in */
    }
    else if (site == NULL) {
        mode_enter_quiet(&thread_mode); /* sys.unraisablehook and audit hooks have frames, for which
                                           on_frame fails again */
        PyErr_WriteUnraisable(on_frame); /* the user's call must not fail for it */
        mode_leave_quiet(&thread_mode);
    }
    else if (site == Py_None) {
        Py_CLEAR(site);
    }
    Py_DECREF(on_frame);
    return (Site *)site;
}

/* The site of this frame, a new reference, or NULL. */
static Site *
frame_site(Handle *handle, Frame *frame)
{
    PyCodeObject *code = frame_code(frame);
    Link *link = link_find(handle, code);
    if (link != NULL) {
        return (Site *)Py_XNewRef(link_site(link));
    }
    if (code == handle->code) {
        link_add(handle, code, handle->root);
        return (Site *)Py_NewRef(handle->root);
    }
    Site *site = ask_on_frame(handle, code, frame_function(frame));
    link = link_find(handle, code); /* another thread may have added it */
    if (link == NULL) {
        link_add(handle, code, site);
        return site;
    }
    Py_XDECREF(site);
    return (Site *)Py_XNewRef(link_site(link));
}

/* ---- running an entry for a frame ---- */

/* Steals `lifted`. The frame is disposed of afterwards. */
static PyObject *
run_in_place_of(PyThreadState *tstate, Handle *handle, Frame *frame, Entry *entry,
                Py_ssize_t nslots, PyObject *lifted)
{
    ThreadMode *mode = &thread_mode;
    PyFunctionObject *function = frame_function(frame);
    PyObject *result;
    if (entry_fits_frame(entry, function, nslots + (lifted != NULL)) &&
        frame_swap_code(tstate, frame, entry->code, nslots, lifted)) {
        mode_set_current(mode, entry->needs_hook ? handle : NULL);
        result = evaluate(tstate, frame, 0);
        mode_set_current(mode, handle);
        return result;
    }
    result =
        entry_call(tstate, entry, handle, (PyObject *)function, frame->localsplus, nslots, lifted);
    frame_dispose(tstate, frame);
    return result;
}

/* Runs a frame as it is, with `on` as the handle whose hook sees the frames that it calls; NULL:
 * the hook is off. */
static PyObject *
evaluate_under(PyThreadState *tstate, Frame *frame, Handle *handle, Handle *on)
{
    mode_set_current(&thread_mode, on);
    PyObject *result = evaluate(tstate, frame, 0);
    mode_set_current(&thread_mode, handle);
    return result;
}

static PyObject *
dispatch_frame(PyThreadState *tstate, Handle *handle, Frame *frame, Site *site)
{
    PyObject *lifted;
    Entry *entry = site_choose(site, frame->localsplus, site->nslots,
                               (PyObject *)frame_function(frame), &lifted);
    if (entry == NULL) {
        if (PyErr_Occurred()) {
            frame_dispose(tstate, frame);
            return NULL;
        }
        return evaluate_under(tstate, frame, handle, site->gave_up ? NULL : handle);
    }
    PyObject *result;
    if (entry_is_eager(entry)) {
        Py_XDECREF(lifted);
        result = evaluate_under(tstate, frame, handle, entry->needs_hook ? handle : NULL);
    }
    else {
        result = run_in_place_of(tstate, handle, frame, entry, site->nslots, lifted);
        if (result != NULL && Py_IS_TYPE(result, &Continuation_Type)) {
            frame_release_slots(frame);
            result = run_continuations(tstate, handle, result);
        }
    }
    Py_DECREF(entry);
    return result;
}

PyObject *
eval_hook(PyThreadState *tstate, Frame *frame, int throwflag)
{
    ThreadMode *mode = &thread_mode;
    Handle *handle = mode->current;
    if (handle == NULL || mode->quiet) {
        if (installation.threads_on == 0) {
            hook_count(
                0); /* an evaluator that was over ours when the last thread went off is gone */
        }
        return evaluate(tstate, frame, throwflag);
    }
    int candidate = is_candidate(mode, frame, throwflag);
    if (code_watched(tstate, frame_code(frame))) {
        /* Off altogether: under any hook CPython inlines no calls, and reports some events twice or
         * not at all. */
        mode_set_current(mode, NULL);
        PyObject *result = evaluate(tstate, frame, throwflag);
        mode_set_current(mode, handle);
        return result;
    }
    if (!candidate) {
        return evaluate(tstate, frame, throwflag);
    }
    Site *site = frame_site(handle, frame);
    PyObject *result = site == NULL || site->skip ? evaluate(tstate, frame, 0)
                                                  : dispatch_frame(tstate, handle, frame, site);
    Py_XDECREF(site);
    return result;
}
