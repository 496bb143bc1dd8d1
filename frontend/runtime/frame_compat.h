/* What differs between CPython 3.11, 3.12 and 3.13 in frames, code objects, tracing and recursion
 * counting.
 *
 * The only file of the runtime that looks at PY_VERSION_HEX. Everything here is about ONE frame,
 * thread state or code object handed in; it uses no sites, entries or handles. */
#ifndef FRAMEJIT_FRAME_COMPAT_H
#define FRAMEJIT_FRAME_COMPAT_H

/* Before Python.h: 3.12's headers do not compile otherwise. */
#define Py_BUILD_CORE 1
#include <Python.h>

#if PY_VERSION_HEX < 0x030B0000 || PY_VERSION_HEX >= 0x030E0000
#error "framejit knows the frames of CPython 3.11, 3.12 and 3.13 only"
#endif
#ifdef Py_GIL_DISABLED
#error "framejit counts on the GIL; free-threaded builds are not supported"
#endif

#include "internal/pycore_frame.h"
#include "internal/pycore_interp.h"
#if PY_VERSION_HEX >= 0x030C0000
#include "internal/pycore_ceval.h"
#endif

typedef struct _PyInterpreterFrame Frame;

/* ---- what a frame runs ---- */

static inline PyCodeObject *
frame_code(Frame *frame)
{
#if PY_VERSION_HEX >= 0x030D0000
    return (PyCodeObject *)frame->f_executable;
#else
    return frame->f_code;
#endif
}

/* Borrowed. Its closure and globals are the frame's own. */
static inline PyFunctionObject *
frame_function(Frame *frame)
{
#if PY_VERSION_HEX >= 0x030C0000
    return (PyFunctionObject *)frame->f_funcobj;
#else
    return frame->f_func;
#endif
}

/* The frame that has called the C function which runs now. */
static inline Frame *
frame_of_caller(PyThreadState *tstate)
{
#if PY_VERSION_HEX >= 0x030D0000
    return tstate->current_frame;
#else
    return tstate->cframe->current_frame;
#endif
}

/* Whether the frame belongs to a plain call that has run nothing yet: no generator being resumed,
 * no frame object. */
static inline int
frame_at_start(Frame *frame)
{
    if (frame->owner != FRAME_OWNED_BY_THREAD || frame->frame_obj != NULL) {
        return 0;
    }
#if PY_VERSION_HEX >= 0x030D0000
    return PyCode_Check(frame->f_executable) && frame->instr_ptr == _PyCode_CODE(frame_code(frame));
#else
    return frame->prev_instr == _PyCode_CODE(frame_code(frame)) - 1;
#endif
}

/* ---- changing a frame that has not run ---- */

static inline Py_ssize_t
code_framesize(PyCodeObject *code)
{
#if PY_VERSION_HEX >= 0x030C0000
    return code->co_framesize;
#else
    return code->co_nlocalsplus + code->co_stacksize + (Py_ssize_t)FRAME_SPECIALS_SIZE;
#endif
}

/* Make the frame run `code` instead, whose argument slots are the frame's first `nslots` and then
 * `lifted` (a reference that is taken over, or NULL for no such slot). 0, with nothing changed,
 * when the chunk of the data stack has no room. A frame at its start is topmost on the data stack,
 * so it may grow where it stands. */
static inline int
frame_swap_code(PyThreadState *tstate, Frame *frame, PyCodeObject *code, Py_ssize_t nslots,
                PyObject *lifted)
{
    PyCodeObject *before = frame_code(frame);
    PyObject **base = (PyObject **)frame;
    PyObject **top = base + code_framesize(code);
    if (base + code_framesize(before) != tstate->datastack_top || top >= tstate->datastack_limit) {
        return 0;
    }
    Py_ssize_t slot = nslots;
    if (lifted != NULL) {
        frame->localsplus[slot++] = lifted;
    }
    for (; slot < code->co_nlocalsplus; slot++) {
        frame->localsplus[slot] = NULL;
    }
    tstate->datastack_top = top;
    frame->stacktop = code->co_nlocalsplus;
    Py_INCREF(code);
#if PY_VERSION_HEX >= 0x030D0000
    frame->f_executable = (PyObject *)code;
    frame->instr_ptr = _PyCode_CODE(code);
#else
    frame->f_code = code;
    frame->prev_instr = _PyCode_CODE(code) - 1;
#endif
    Py_DECREF(before);
    return 1;
}

#if PY_VERSION_HEX >= 0x030C0000 && PY_VERSION_HEX < 0x030D0000
/* 3.12 keeps _PyThreadState_PopFrame to itself. A frame that is the first item of its chunk takes
 * the chunk along; the chunk came from the arena allocator. */
static inline void
frame_pop(PyThreadState *tstate, Frame *frame)
{
    PyObject **base = (PyObject **)frame;
    _PyStackChunk *chunk = tstate->datastack_chunk;
    if (base != &chunk->data[0]) {
        tstate->datastack_top = base;
        return;
    }
    _PyStackChunk *below = chunk->previous;
    tstate->datastack_top = &below->data[below->top];
    tstate->datastack_chunk = below;
    tstate->datastack_limit = (PyObject **)((char *)below + below->size);
    PyObjectArenaAllocator arena;
    PyObject_GetArenaAllocator(&arena);
    arena.free(arena.ctx, chunk, chunk->size);
}
#endif

/* Disposes of a frame as the default evaluator does at its end, for a frame that was not evaluated.
 * Keeps the current exception. */
static inline void
frame_dispose(PyThreadState *tstate, Frame *frame)
{
#if PY_VERSION_HEX >= 0x030D0000
    PyObject *raised = PyErr_GetRaisedException();
    _PyEval_FrameClearAndPop(tstate, frame);
    PyErr_SetRaisedException(raised);
#elif PY_VERSION_HEX >= 0x030C0000
    PyObject *raised = PyErr_GetRaisedException();
    for (int i = 0; i < frame->stacktop; i++) {
        Py_CLEAR(frame->localsplus[i]);
    }
    Py_CLEAR(frame->f_locals);
    Py_CLEAR(frame->f_funcobj);
    Py_CLEAR(frame->f_code);
    frame_pop(tstate, frame);
    PyErr_SetRaisedException(raised);
#else
    (void)tstate, (void)frame; /* 3.11: the caller of the evaluator clears */
#endif
}

/* After the default evaluator: drop what the frame's variables still hold. Only 3.11 leaves them to
 * the caller, who would keep them alive while a continuation runs. A frame object shares the
 * slots and must keep them. */
static inline void
frame_release_slots(Frame *frame)
{
#if PY_VERSION_HEX < 0x030C0000
    if (frame->frame_obj == NULL) {
        int count = frame->stacktop;
        frame->stacktop = 0;
        for (int i = 0; i < count; i++) {
            Py_CLEAR(frame->localsplus[i]);
        }
    }
#else
    (void)frame;
#endif
}

/* ---- a word of ours on each code object ---- */

static inline Py_ssize_t
code_extra_index(freefunc release)
{
#if PY_VERSION_HEX >= 0x030C0000
    return PyUnstable_Eval_RequestCodeExtraIndex(release);
#else
    return _PyEval_RequestCodeExtraIndex(release);
#endif
}

/* NULL where nothing was set. */
static inline void *
code_extra(PyCodeObject *code, Py_ssize_t index)
{
    void *extra = NULL;
#if PY_VERSION_HEX >= 0x030C0000
    PyUnstable_Code_GetExtra((PyObject *)code, index, &extra);
#else
    _PyCode_GetExtra((PyObject *)code, index, &extra);
#endif
    return extra;
}

static inline int
code_set_extra(PyCodeObject *code, Py_ssize_t index, void *extra)
{
#if PY_VERSION_HEX >= 0x030C0000
    return PyUnstable_Code_SetExtra((PyObject *)code, index, extra);
#else
    return _PyCode_SetExtra((PyObject *)code, index, extra);
#endif
}

/* ---- tracers and profilers ---- */

#if PY_VERSION_HEX >= 0x030C0000
static inline int
any_tool(const uint8_t *tools, size_t count)
{
    uint8_t seen = 0;
    for (size_t i = 0; i < count; i++) {
        seen |= tools[i];
    }
    return seen != 0;
}
#endif

/* Whether a tracer, a profiler or a sys.monitoring tool wants the events of this code in this
 * thread. Rebuilt code would report other lines and calls than the user's (and local events are set
 * on the user's code object only). */
static inline int
code_watched(PyThreadState *tstate, PyCodeObject *code)
{
#if PY_VERSION_HEX >= 0x030C0000
    if (any_tool(tstate->interp->monitors.tools, sizeof(tstate->interp->monitors.tools))) {
        return 1;
    }
    _PyCoMonitoringData *local = code->_co_monitoring;
    return local != NULL &&
           any_tool(local->local_monitors.tools, sizeof(local->local_monitors.tools));
#else
    (void)code;
    return tstate->cframe->use_tracing != 0;
#endif
}

/* ---- the evaluator ---- */

/* Where the interpreter keeps its evaluator; NULL is the default one. What the exported getter and
 * setter do (3.13's also counts the event for its statistics), without three calls each time the
 * hook goes on or off. */
static inline _PyFrameEvalFunction *
evaluator_slot(PyInterpreterState *interp)
{
    return &interp->eval_frame;
}

/* ---- recursion ---- */

/* From 3.12 on there is a small budget of C levels, of which the evaluator counts as two
 * (PY_EVAL_C_STACK_UNITS, ceval.c), where a call that it inlines counts as none. The runtime, which
 * sees to the real stack itself, gives those back. 3.11 has one counter for Python and C, and what
 * is inlined counts as well: nothing to give. */
enum { EVALUATOR_C_LEVELS = 2 };

static inline void
c_levels_add(PyThreadState *tstate, int levels)
{
#if PY_VERSION_HEX >= 0x030C0000
    tstate->c_recursion_remaining += levels;
#else
    (void)tstate, (void)levels;
#endif
}

static inline int
c_levels_left(PyThreadState *tstate)
{
#if PY_VERSION_HEX >= 0x030C0000
    return tstate->c_recursion_remaining;
#else
    (void)tstate;
    return 0;
#endif
}

/* ---- the module ---- */

#if PY_VERSION_HEX >= 0x030C0000
#define MAIN_INTERPRETER_ONLY \
    {Py_mod_multiple_interpreters, Py_MOD_MULTIPLE_INTERPRETERS_NOT_SUPPORTED},
#else
#define MAIN_INTERPRETER_ONLY
#endif

/* ---- weak references ---- */

/* What it refers to, a new reference; NULL, without an exception, if that is gone. */
static inline PyObject *
weakly_held(PyObject *reference)
{
#if PY_VERSION_HEX >= 0x030D0000
    PyObject *object;
    (void)PyWeakref_GetRef(reference, &object);
    return object;
#else
    PyObject *object = PyWeakref_GET_OBJECT(reference);
    return object == Py_None ? NULL : Py_NewRef(object);
#endif
}

#endif
