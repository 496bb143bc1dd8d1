/* What the runtime's C files share: objects, the mode of the thread, and each file's functions.
 *
 *   entry.c         Entry: a guard program and the code it guards
 *   site.c          Site: the entries of a code object or resume point; choosing one for a call
 *   continuation.c  Continuation, ContinuationMaker, and the loop that runs them
 *   handle.c        Handle: a compiled callable; binding arguments
 *   module_call.c   ModuleCall: a compiled module's call
 *   links.c         (handle, code object) -> site
 *   eval_hook.c     the frame evaluator
 *   mode.c          on, off, quiet; the C stack
 *   frame_hook.c    the module: Quiet and the functions */
#ifndef FRAMEJIT_HOOK_H
#define FRAMEJIT_HOOK_H

#include "frame_compat.h"
#include "guard_api.h"

#include <stdint.h>

#define LOCAL __attribute__((visibility("hidden")))

typedef struct Link Link;

typedef struct {
    PyObject_HEAD
    PyObject *program;        /* of the guard capsule's program_type, or NULL: always hits */
    PyObject *function;       /* takes the slots (and the lifted tuple) by position, or NULL */
    PyCodeObject *code;       /* the same for a frame's own closure, or NULL */
    PyCodeObject *positional; /* `code` with positional arguments only, made when first needed */
    PyObject *data;
    PyObject
        *graph; /* where the code does nothing but call a graph of one result: that, else NULL */
    PyObject *passed_on; /* exceptions of the graph that leave; after others the code is run, which
                            handles them */
    int *argument_locations; /* of the graph: slots, or from -1 downwards items of the lifted tuple
                              */
    Py_ssize_t nlocations;
    unsigned long long hits;
    char needs_hook, once;
} Entry;

/* An item of a site's list: an entry, and the one that was hit after it the last time, borrowed, as
 * it is in the list too. NULL: the entry itself was hit again. */
typedef struct {
    Entry *entry, *next;
} ListedEntry;

typedef struct {
    PyObject_HEAD
    PyObject *function; /* eager, or None */
    PyObject *on_miss;
    PyObject *data;
    PyObject *dict;
    PyObject *weakrefs;
    ListedEntry *entries; /* most recently hit first */
    Py_ssize_t count, capacity;
    Py_ssize_t nslots;
    unsigned long long misses, rejected, passed;
    char skip;
    char full;    /* makes no more entries: what its entries do not serve runs eager */
    char gave_up; /* full, and a call that no entry serves runs eager with all that it calls: the
                     hook is off */
} Site;

typedef struct {
    PyObject_HEAD
    Site *site;
    PyObject *state;
    char eager;
} Continuation;

typedef struct {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    PyFunctionObject *function;
    PyCodeObject *code; /* the function's code when the handle was made */
    Site *root;
    PyObject *on_frame;
    PyObject *dict;
    PyObject *weakrefs;
    Link *links;
    Py_ssize_t simple_nargs; /* the positional count that needs no binding, -1 if every call does */
    PyObject *comparison;  /* measures calls, compiled and in eager, or NULL: calls are compiled */
    Py_ssize_t unmeasured; /* calls in eager before `comparison` measures again */
} Handle;

extern LOCAL PyTypeObject Entry_Type, Site_Type, Continuation_Type, ContinuationMaker_Type,
    Handle_Type, Quiet_Type, ModuleCall_Type;
extern LOCAL PyObject *unbound_marker;

/* ---- mode.c ---- */

/* What calls of compiled functions do; the names are those of set_stance. */
typedef enum {
    STANCE_INHERITED,
    STANCE_DEFAULT,
    STANCE_FORCE_EAGER,
    STANCE_EAGER_ON_RECOMPILE,
    STANCE_FAIL_ON_RECOMPILE
} Stance;

extern LOCAL Stance process_stance;

/* What this thread is doing. The hook is on in it when there is a handle and nothing made it quiet.
 */
typedef struct {
    Handle *current; /* borrowed: its call is below us on the C stack */
    int quiet;       /* depth of graphs, compiles and callbacks */
    Stance stance;   /* STANCE_INHERITED: the process's */
    /* Code that we are about to start: its next frame is let through, once. Then two references of
     * the caller's are not needed any more. */
    PyCodeObject *pass_once;
    PyObject **release, **release_lifted;
    Frame *delegating; /* handed to the evaluator under ours, which may hand it back */
    /* Below `low`, C levels get scarce and frames run with the hook off; under `end` there is
     * nothing left. */
    uintptr_t stack_low, stack_end;
} ThreadMode;

/* Initial-exec: a load off the thread pointer instead of a call, which would cost as much as a
 * guard. */
extern LOCAL _Thread_local ThreadMode thread_mode __attribute__((tls_model("initial-exec")));

static inline Stance
stance_now(void)
{
    Stance own = thread_mode.stance;
    return own != STANCE_INHERITED ? own : process_stance;
}

LOCAL void mode_init(void);
LOCAL PyObject *eval_hook(PyThreadState *tstate, Frame *frame, int throwflag);

/* The process's side of it, under the GIL. */
typedef struct {
    _PyFrameEvalFunction *slot; /* where the interpreter has its frame evaluator */
    _PyFrameEvalFunction below; /* the evaluator before ours; NULL: the default */
    int threads_on;
    int installed; /* ours is in the slot, or under an evaluator that came over it */
} Installation;

extern LOCAL Installation installation;

/* Sets another compiler's callback for frames in this thread, None for none, and returns the one
 * before; NULL: not known. */
extern LOCAL PyObject *compiler_switch;

static inline int
is_foreign(_PyFrameEvalFunction evaluator)
{
    return evaluator != NULL && evaluator != eval_hook && evaluator != _PyEval_EvalFrameDefault;
}

static inline void
hook_uninstall(void)
{
    *installation.slot = installation.below;
    installation.installed = 0;
}

/* Installed only while some thread is on: an evaluator of anyone's costs every call in the process
 * 10 ns, and counts its Python calls as C levels. Never installed twice: an evaluator over ours
 * would be both over and under it, and stay there when it goes. */
static inline void
hook_count(int change)
{
    installation.threads_on += change;
    _PyFrameEvalFunction top = *installation.slot;
    if (top == eval_hook) {
        if (installation.threads_on == 0) {
            hook_uninstall();
        }
        return;
    }
    if (!is_foreign(top)) {
        installation.installed = 0; /* whoever was over ours went, and took ours along */
    }
    else if (top == installation.below) {
        installation.below = NULL; /* it came over ours as well, and will go from there */
    }
    if (installation.threads_on > 0 && !installation.installed) {
        installation.below = top;
        installation.installed = 1;
        *installation.slot = eval_hook;
    }
}

static inline void
mode_set_current(ThreadMode *mode, Handle *handle)
{
    int change = (handle != NULL) - (mode->current != NULL);
    mode->current = handle;
    if (change != 0 && mode->quiet == 0) {
        hook_count(change);
    }
}

static inline void
mode_enter_quiet(ThreadMode *mode)
{
    if (mode->quiet++ == 0 && mode->current != NULL) {
        hook_count(-1);
    }
}

static inline void
mode_leave_quiet(ThreadMode *mode)
{
    if (--mode->quiet == 0 && mode->current != NULL) {
        hook_count(+1);
    }
}

/* What entering the evaluator from C takes of the budget of C levels, and whether the stack runs
 * low. */
typedef struct {
    int levels;
    int low;
} StackUse;

LOCAL int stack_enter_low(PyThreadState *tstate, StackUse *use, uintptr_t here);

/* -1, with RecursionError, when there is no stack for it. */
static inline int
stack_enter(PyThreadState *tstate, StackUse *use)
{
    uintptr_t here = (uintptr_t)__builtin_frame_address(0);
    *use = (StackUse){EVALUATOR_C_LEVELS, 0};
    if (here <= thread_mode.stack_low && stack_enter_low(tstate, use, here) < 0) {
        return -1;
    }
    c_levels_add(tstate, use->levels);
    return 0;
}

static inline void
stack_leave(PyThreadState *tstate, const StackUse *use)
{
    c_levels_add(tstate, -use->levels);
}

static inline PyObject *
call_vector(PyObject *function, PyObject *const *args, size_t nargsf, PyObject *kwnames)
{
    if (PyFunction_Check(function)) {
        return ((PyFunctionObject *)function)->vectorcall(function, args, nargsf, kwnames);
    }
    return PyObject_Vectorcall(function, args, nargsf, kwnames);
}

LOCAL PyObject *call_switching(Handle *handle, PyObject *function, PyObject *const *args,
                               size_t nargsf, PyObject *kwnames);

/* Call `function` with the hook off, or on for `handle` (the frame of the function itself is let
 * through). */
static inline PyObject *
call_in_mode(PyThreadState *tstate, Handle *handle, PyObject *function, PyObject *const *args,
             size_t nargsf, PyObject *kwnames)
{
    StackUse stack;
    if (stack_enter(tstate, &stack) < 0) {
        return NULL;
    }
    PyObject *result = handle == NULL && thread_mode.current == NULL
                           ? call_vector(function, args, nargsf, kwnames)
                           : call_switching(handle, function, args, nargsf, kwnames);
    stack_leave(tstate, &stack);
    return result;
}

LOCAL PyObject *
call_quietly(PyObject *function, PyObject *const *args, size_t nargsf, PyObject *kwnames);

/* ---- entry.c ---- */

static inline int
argument_slots(PyCodeObject *code)
{
    return code->co_argcount + code->co_kwonlyargcount + !!(code->co_flags & CO_VARARGS) +
           !!(code->co_flags & CO_VARKEYWORDS);
}

LOCAL int program_holds(PyObject *program, PyObject *const *slots, Py_ssize_t nslots,
                        PyObject *function, PyObject **lifted);

/* 1: may serve this call (*lifted new or NULL), 0: may not. */
static inline int
entry_holds(Entry *entry, PyObject *const *slots, Py_ssize_t nslots, PyObject *function,
            PyObject **lifted)
{
    *lifted = NULL;
    return entry->program == NULL || program_holds(entry->program, slots, nslots, function, lifted);
}

/* Run it as a call; takes `lifted` over. `function` gives the closure and globals to entries that
 * have only code. */
LOCAL PyObject *entry_call(PyThreadState *tstate, Entry *entry, Handle *handle, PyObject *function,
                           PyObject *const *slots, size_t nslotsf, PyObject *lifted);
/* Whether `code` can stand in for the code of a frame of `function` with this many argument slots.
 */
LOCAL int entry_fits_frame(Entry *entry, PyFunctionObject *function, Py_ssize_t nslots);

static inline int
entry_is_eager(Entry *entry)
{
    return entry->code == NULL && entry->function == NULL;
}

/* ---- site.c ---- */

/* The entry for this call, a new reference, compiled now if there was none. NULL: run eager, or
 * on_miss raised. */
LOCAL Entry *site_choose(Site *site, PyObject *const *slots, Py_ssize_t nslots, PyObject *function,
                         PyObject **lifted);

/* ---- module_call.c ---- */

LOCAL int module_call_init(void);

/* ---- continuation.c ---- */

LOCAL PyObject *run_continuations(PyThreadState *tstate, Handle *handle, PyObject *result);

static inline PyObject *
finish_continuations(PyThreadState *tstate, Handle *handle, PyObject *result)
{
    if (result != NULL && Py_IS_TYPE(result, &Continuation_Type)) {
        return run_continuations(tstate, handle, result);
    }
    return result;
}

/* ---- links.c ---- */

LOCAL int links_init(void);
/* NULL: never met. A link without a site: let such frames through. */
LOCAL Link *link_find(Handle *handle, PyCodeObject *code);
LOCAL Link *link_add(Handle *handle, PyCodeObject *code, Site *site);
LOCAL Site *link_site(Link *link);
LOCAL int links_traverse(Handle *handle, visitproc visit, void *arg);
LOCAL void links_drop(Handle *handle);
LOCAL PyObject *links_list(Handle *handle);

#endif
