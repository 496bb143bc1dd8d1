/* See torch_state.h. The addresses of torch's own getters come from fingerprint.py; none of them
 * can throw. */
#define _GNU_SOURCE
#include "torch_state.h"

#include <dlfcn.h>
#include <string.h>

static struct {
    void *library; /* dlopen handle of libc10, for the thread-local symbol */
    const char *keys_symbol;
    _Bool (*grad)(void);
    const void *(*functions)(
        void); /* at::impl::PythonTorchFunctionTLS of this thread, see function_state */
    int64_t (*dispatch_modes)(void);
    int8_t (*autocast_dtype)(int8_t device_type);
    _Bool (*autocast_cache)(void);
    int8_t (*default_dtype)(void);
    _Bool (*deterministic[3])(const void *context);
    const void *context;
    const void *(*saved_tensor_hooks)(
        void); /* at::impl::SavedTensorDefaultHooksTLS of this thread, see saved_hooks_state */
    PyObject *function_mode_at,
        *dispatch_mode_at; /* torch._C._get_function_stack_at, _get_dispatch_stack_at */
} probes;
static int calibrated;

/* PythonTorchFunctionTLS: an enum, and a vector of shared pointers. That it is so is tried out by
 * fingerprint.py. */
typedef struct {
    int32_t disabled, padding;
    const char *begin, *end;
} function_state;

enum { SHARED_POINTER = 16 };

/* SavedTensorDefaultHooksTLS begins with a stack of pairs of hooks, a std::deque in blocks of 16.
 */
typedef struct {
    const char *at, *block, *block_end, *place; /* of the block, among all */
} deque_iterator;
typedef struct {
    const void *blocks;
    size_t size;
    deque_iterator begin, end;
} saved_hooks_state;

enum { PAIR_OF_HOOKS = 32, HOOKS_A_BLOCK = 16 };

static int64_t
depth_of(const saved_hooks_state *hooks)
{
    int64_t blocks = (hooks->end.place - hooks->begin.place) / (int64_t)sizeof(void *) - 1;
    return blocks * HOOKS_A_BLOCK +
           (hooks->end.at - hooks->end.block + hooks->begin.block_end - hooks->begin.at) /
               PAIR_OF_HOOKS;
}

/* Where torch keeps this thread's state; a thread-local of torch's stays where it is as long as the
 * thread lives. */
static _Thread_local struct {
    const void *keys; /* dlsym gives the calling thread's own copy */
    const function_state *functions;
    const saved_hooks_state *saved_tensor_hooks;
} thread __attribute__((tls_model("initial-exec")));

static void
find_thread_state(void)
{
    thread.functions = probes.functions();
    thread.saved_tensor_hooks = probes.saved_tensor_hooks();
    thread.keys = dlsym(probes.library, probes.keys_symbol);
}

static void
take_fingerprint(fj_fingerprint *now)
{
    if (thread.keys == NULL)
        find_thread_state();
    memset(now, 0, sizeof *now);
    memcpy(now->keys, thread.keys, sizeof now->keys);
    now->function_modes = (thread.functions->end - thread.functions->begin) / SHARED_POINTER;
    now->functions_disabled = thread.functions->disabled;
    if (now->keys[0])
        now->dispatch_modes =
            probes.dispatch_modes(); /* with a mode there is a key included: Python */
    now->grad = probes.grad();
    now->autocast_cpu = probes.autocast_dtype(0);
    now->autocast_cuda = probes.autocast_dtype(1);
    now->autocast_cache = probes.autocast_cache();
    now->default_dtype = probes.default_dtype();
    now->saved_tensor_hooks = depth_of(thread.saved_tensor_hooks);
    for (int i = 0; i < 3; i++)
        now->deterministic[i] = probes.deterministic[i](probes.context);
}

/* Append the `count` modes of a stack; 0, and no exception, if they cannot be had. */
static int
append_modes(PyObject *modes, Py_ssize_t from, PyObject *mode_at, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        PyObject *at = PyLong_FromLongLong(i);
        PyObject *mode = at ? PyObject_CallOneArg(mode_at, at) : NULL;
        Py_XDECREF(at);
        if (mode == NULL)
            return PyErr_Clear(), 0;
        PyTuple_SET_ITEM(modes, from + i, mode);
    }
    return 1;
}

/* Both stacks of modes as a new tuple; NULL for none, or, no exception, if they cannot be had. */
static PyObject *
all_modes(const fj_fingerprint *now)
{
    int64_t count = now->function_modes + now->dispatch_modes;
    PyObject *modes = count ? PyTuple_New(count) : NULL;
    if (modes == NULL)
        return PyErr_Clear(), NULL;
    if (!append_modes(modes, 0, probes.function_mode_at, now->function_modes) ||
        !append_modes(modes, now->function_modes, probes.dispatch_mode_at, now->dispatch_modes))
        Py_CLEAR(modes);
    return modes;
}

static int
same_modes(PyObject *known, const fj_fingerprint *now)
{
    int64_t count = now->function_modes + now->dispatch_modes;
    if (count == 0)
        return 1;
    PyObject *modes = known ? all_modes(now) : NULL;
    int same = modes != NULL && PyTuple_GET_SIZE(known) == count;
    for (int64_t i = 0; same && i < count; i++)
        same = PyTuple_GET_ITEM(known, i) == PyTuple_GET_ITEM(modes, i);
    Py_XDECREF(modes);
    return same;
}

static int
ask(PyObject *state)
{
    PyObject *answer = PyObject_CallMethod(state, "holds", NULL);
    int holds = answer == Py_True;
    Py_XDECREF(answer);
    PyErr_Clear();
    return holds;
}

int
fj_torch_state_holds(PyObject *state, fj_state_memory *memory)
{
    if (!calibrated)
        return ask(state);
    fj_fingerprint now;
    take_fingerprint(&now);
    if (now.saved_tensor_hooks)
        return ask(state); /* whose they are does not show */
    if (memory->knows_holds && memcmp(&now, &memory->holds, sizeof now) == 0 &&
        same_modes(memory->modes, &now))
        return 1;
    if (memory->knows_fails && memcmp(&now, &memory->fails, sizeof now) == 0)
        return 0;
    int holds = ask(state);
    if (holds) {
        memory->holds = now;
        memory->knows_holds = 1;
        Py_XSETREF(memory->modes, all_modes(&now));
    }
    else if (now.function_modes + now.dispatch_modes ==
             0) { /* other modes of the same number could hold */
        memory->fails = now;
        memory->knows_fails = 1;
    }
    return holds;
}

/* set_state_probes(None | (library handle, symbol of the keys, 9 addresses, context getter, getter
 * of the saved tensors' hooks, function_mode_at, dispatch_mode_at)) */
static PyObject *
set_state_probes(PyObject *module, PyObject *from)
{
    calibrated = 0;
    if (from == Py_None)
        Py_RETURN_NONE;
    unsigned long long library, at[9], context, hooks;
    const char *symbol;
    PyObject *function_mode_at, *dispatch_mode_at;
    if (!PyArg_ParseTuple(from, "KsKKKKKKKKKKKOO", &library, &symbol, &at[0], &at[1], &at[2],
                          &at[3], &at[4], &at[5], &at[6], &at[7], &at[8], &context, &hooks,
                          &function_mode_at, &dispatch_mode_at))
        return NULL;
    probes.library = (void *)(uintptr_t)library;
    char *kept = strdup(symbol); /* once a process */
    probes.keys_symbol = kept;
    void **targets[9] = {
        (void **)&probes.grad,
        (void **)&probes.functions,
        (void **)&probes.dispatch_modes,
        (void **)&probes.autocast_dtype,
        (void **)&probes.autocast_cache,
        (void **)&probes.default_dtype,
        (void **)&probes.deterministic[0],
        (void **)&probes.deterministic[1],
        (void **)&probes.deterministic[2],
    };
    for (int i = 0; i < 9; i++)
        *targets[i] = (void *)(uintptr_t)at[i];
    probes.saved_tensor_hooks = (const void *(*)(void))(uintptr_t)hooks;
    probes.context = ((const void *(*)(void))(uintptr_t)context)();
    Py_XSETREF(probes.function_mode_at, Py_NewRef(function_mode_at));
    Py_XSETREF(probes.dispatch_mode_at, Py_NewRef(dispatch_mode_at));
    if (kept == NULL || dlsym(probes.library, kept) == NULL)
        Py_RETURN_NONE;
    calibrated = 1;
    Py_RETURN_NONE;
}

/* fingerprint() -> (bytes, function modes, dispatch modes) | None, for the calibration: does each
 * mode show? */
static PyObject *
fingerprint(PyObject *module, PyObject *unused)
{
    if (!calibrated)
        Py_RETURN_NONE;
    fj_fingerprint now;
    take_fingerprint(&now);
    return Py_BuildValue("NLL", PyBytes_FromStringAndSize((const char *)&now, sizeof now),
                         (long long)now.function_modes, (long long)now.dispatch_modes);
}

PyMethodDef fj_state_methods[] = {
    {"set_state_probes", set_state_probes, METH_O, "set_state_probes(addresses | None)"},
    {"fingerprint", fingerprint, METH_NOARGS,
     "The bytes that change with torch's modes, and how many modes there are; None before "
     "calibration."},
    {NULL},
};
