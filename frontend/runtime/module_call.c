/* ModuleCall: the value of the slot that nn.Module has for a compiled call. If calling the module
 * only calls its class's forward, the handle of forward is called from here; everything else is
 * done by a subclass in Python. The decision must be that of is_plain in compiled_module.py.
 *
 * A program may copy a module with the slot, by its dictionary. torch calls the slot's value
 * without the module, so which one is called is read from the calling frame: a copy is called
 * uncompiled. */
#include "hook.h"
#include "object_compat.h"

#include <structmember.h>

typedef struct {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    PyObject *module;  /* a weak reference */
    PyObject *forward; /* the class's function when this was made */
    PyObject *handle;  /* of it */
    PyObject *globals; /* the dictionary of torch.nn.modules.module */
    PyObject *caller;  /* the code that calls the slot's value, with the module as first local */
    const void *const *(*tracing)(
        void); /* torch's std::shared_ptr<TracingState>, whose first word is the pointer; or NULL */
    PyObject *weakrefs;
    int32_t hints[8];
} ModuleCall;

enum { OWN = 4, EVERYONES = 4 };

/* Dictionaries of hooks: the module's own, those for all modules. */
static const char *const hook_names[OWN + EVERYONES] = {
    "_forward_hooks",         "_forward_pre_hooks",         "_backward_hooks",
    "_backward_pre_hooks",    "_global_forward_hooks",      "_global_forward_pre_hooks",
    "_global_backward_hooks", "_global_backward_pre_hooks",
};
static PyObject *names[OWN + EVERYONES], *forward_name, *call_generally_name, *call_impl_name;

int
module_call_init(void)
{
    for (int i = 0; i < OWN + EVERYONES; i++) {
        if (names[i] == NULL && (names[i] = PyUnicode_InternFromString(hook_names[i])) == NULL) {
            return -1;
        }
    }
    if (forward_name == NULL) {
        forward_name = PyUnicode_InternFromString("forward");
        call_generally_name = PyUnicode_InternFromString("call_generally");
        call_impl_name = PyUnicode_InternFromString("_call_impl");
    }
    return forward_name != NULL && call_generally_name != NULL && call_impl_name != NULL ? 0 : -1;
}

static int
is_empty(PyObject *hooks)
{
    return hooks != NULL && PyDict_Check(hooks) && PyDict_GET_SIZE(hooks) == 0;
}

static int
is_plain(ModuleCall *self, PyObject *module)
{
    int32_t none = FJ_NO_HINT;
    if (*self->tracing() != NULL ||
        _PyType_Lookup(Py_TYPE(module), forward_name) != self->forward) {
        return 0;
    }
    for (int i = 0; i < OWN + EVERYONES; i++) {
        Py_hash_t hash = ((PyASCIIObject *)names[i])->hash;
        PyObject *hooks = i < OWN ? fj_instance_item(module, names[i], hash, &self->hints[i])
                                  : fj_dict_item(self->globals, names[i], hash, &self->hints[i]);
        if (!is_empty(hooks)) {
            return 0;
        }
    }
    return fj_instance_item(module, forward_name, ((PyASCIIObject *)forward_name)->hash, &none) ==
           NULL;
}

/* callable(module, *args, **kwargs) */
static PyObject *
call_with_module(PyObject *callable, PyObject *module, PyObject *const *args, Py_ssize_t nargs,
                 PyObject *kwnames)
{
    enum { FEW = 16 };
    PyObject *few[FEW + 2];
    Py_ssize_t total = nargs + (kwnames == NULL ? 0 : PyTuple_GET_SIZE(kwnames));
    PyObject **all = total <= FEW ? few : PyMem_New(PyObject *, total + 2);
    if (all == NULL) {
        return PyErr_NoMemory();
    }
    all[0] = NULL;
    all[1] = module;
    memcpy(all + 2, args, total * sizeof(PyObject *));
    PyObject *result = PyObject_Vectorcall(callable, all + 1,
                                           (nargs + 1) | PY_VECTORCALL_ARGUMENTS_OFFSET, kwnames);
    if (all != few) {
        PyMem_Free(all);
    }
    return result;
}

/* The module that is called, borrowed; NULL where the slot's value is called by other code. */
static PyObject *
called_module(ModuleCall *self)
{
    Frame *frame = frame_of_caller(PyThreadState_Get());
    int is_torchs = frame != NULL && (PyObject *)frame_code(frame) == self->caller;
    return is_torchs ? frame->localsplus[0] : NULL;
}

static PyObject *
call_uncompiled(PyObject *module, PyObject *const *args, size_t nargsf, PyObject *kwnames)
{
    PyObject *call = PyObject_GetAttr(module, call_impl_name);
    if (call == NULL) {
        return NULL;
    }
    PyObject *result = PyObject_Vectorcall(call, args, PyVectorcall_NARGS(nargsf), kwnames);
    Py_DECREF(call);
    return result;
}

static PyObject *
module_call(ModuleCall *self, PyObject *const *args, size_t nargsf, PyObject *kwnames)
{
    PyObject *module = self->module == NULL ? NULL : weakly_held(self->module);
    PyObject *called = called_module(self);
    if (called != NULL && called != module) {
        Py_XDECREF(module);
        return call_uncompiled(called, args, nargsf, kwnames);
    }
    if (module == NULL) {
        PyErr_SetString(PyExc_ReferenceError, "the compiled module is gone");
        return NULL;
    }
    int plain = self->handle != NULL && self->handle != Py_None && self->tracing != NULL &&
                is_plain(self, module);
    PyObject *callable =
        plain ? Py_NewRef(self->handle) : PyObject_GetAttr((PyObject *)self, call_generally_name);
    PyObject *result = NULL;
    if (callable != NULL) {
        result = call_with_module(callable, module, args, PyVectorcall_NARGS(nargsf), kwnames);
        Py_DECREF(callable);
    }
    Py_DECREF(module);
    return result;
}

/* ---- the type ---- */

static PyObject *
module_call_new(PyTypeObject *type, PyObject *Py_UNUSED(args), PyObject *Py_UNUSED(kwargs))
{
    ModuleCall *self = (ModuleCall *)type->tp_alloc(type, 0);
    if (self != NULL) {
        self->vectorcall = (vectorcallfunc)module_call;
    }
    return (PyObject *)self;
}

static int
module_call_start(ModuleCall *self, PyObject *args, PyObject *kwargs)
{
    static char *keywords[] = {"module", "forward", "handle", "globals", "caller", "tracing", NULL};
    PyObject *module, *forward, *handle, *globals, *caller;
    unsigned long long tracing;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OOOO!OK:ModuleCall", keywords, &module,
                                     &forward, &handle, &PyDict_Type, &globals, &caller,
                                     &tracing)) {
        return -1;
    }
    PyObject *reference = PyWeakref_NewRef(module, NULL);
    if (reference == NULL) {
        return -1;
    }
    Py_XSETREF(self->module, reference);
    Py_XSETREF(self->forward, Py_NewRef(forward));
    Py_XSETREF(self->handle, Py_NewRef(handle));
    Py_XSETREF(self->globals, Py_NewRef(globals));
    Py_XSETREF(self->caller, Py_NewRef(caller));
    self->tracing = (const void *const *(*)(void))(uintptr_t)tracing;
    memset(self->hints, 0, sizeof self->hints);
    return 0;
}

static int
module_call_traverse(ModuleCall *self, visitproc visit, void *arg)
{
    Py_VISIT(self->module);
    Py_VISIT(self->forward);
    Py_VISIT(self->handle);
    Py_VISIT(self->globals);
    Py_VISIT(self->caller);
    return 0;
}

static int
module_call_clear(ModuleCall *self)
{
    Py_CLEAR(self->module);
    Py_CLEAR(self->forward);
    Py_CLEAR(self->handle);
    Py_CLEAR(self->globals);
    Py_CLEAR(self->caller);
    return 0;
}

static void
module_call_dealloc(ModuleCall *self)
{
    PyObject_GC_UnTrack(self);
    if (self->weakrefs != NULL) {
        PyObject_ClearWeakRefs((PyObject *)self);
    }
    module_call_clear(self);
    Py_TYPE(self)->tp_free(self);
}

PyTypeObject ModuleCall_Type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "framejit.frontend.runtime._hook.ModuleCall",
    .tp_doc =
        "ModuleCall(module, forward, handle, globals, caller, tracing)\n--\n\n"
        "Calls `handle` with the module in front while the module's call means that of its "
        "class's `forward`, else "
        "`call_generally`, a method that subclasses have. `globals` are those of "
        "torch.nn.modules.module, `caller` is the code of the method there that calls the "
        "slot's value, `tracing` is the "
        "address of torch's getter of the tracing state, 0 for none: then `call_generally` is "
        "always asked.",
    .tp_basicsize = sizeof(ModuleCall),
    .tp_weaklistoffset = offsetof(ModuleCall, weakrefs),
    .tp_vectorcall_offset = offsetof(ModuleCall, vectorcall),
    .tp_call = PyVectorcall_Call,
    .tp_flags =
        Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_new = module_call_new,
    .tp_init = (initproc)module_call_start,
    .tp_dealloc = (destructor)module_call_dealloc,
    .tp_traverse = (traverseproc)module_call_traverse,
    .tp_clear = (inquiry)module_call_clear,
};
