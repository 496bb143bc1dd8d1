/* The module framejit.frontend.runtime._hook: the runtime's types, Quiet, and the switches. */
#include "hook.h"

#include <structmember.h>

/* ---- Quiet: a graph's callable, run with the hook off ---- */

typedef struct {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    PyObject *wrapped;
} Quiet;

static PyObject *
quiet_vectorcall(Quiet *self, PyObject *const *args, size_t nargsf, PyObject *kwnames)
{
    return call_quietly(self->wrapped, args, nargsf, kwnames);
}

static PyObject *
quiet_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"callable", NULL};
    PyObject *callable;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O:Quiet", names, &callable)) {
        return NULL;
    }
    if (!PyCallable_Check(callable)) {
        PyErr_SetString(PyExc_TypeError, "Quiet takes a callable");
        return NULL;
    }
    Quiet *self = (Quiet *)type->tp_alloc(type, 0);
    if (self != NULL) {
        self->vectorcall = (vectorcallfunc)quiet_vectorcall;
        self->wrapped = Py_NewRef(callable);
    }
    return (PyObject *)self;
}

static int
quiet_traverse(Quiet *self, visitproc visit, void *arg)
{
    Py_VISIT(self->wrapped);
    return 0;
}

static int
quiet_clear(Quiet *self)
{
    /* A cleared Quiet may still be called by a finalizer: it then says that None is not callable.
     */
    Py_INCREF(Py_None);
    Py_SETREF(self->wrapped, Py_None);
    return 0;
}

static void
quiet_dealloc(Quiet *self)
{
    PyObject_GC_UnTrack(self);
    Py_CLEAR(self->wrapped);
    Py_TYPE(self)->tp_free(self);
}

static PyMemberDef quiet_members[] = {
    {"wrapped", T_OBJECT, offsetof(Quiet, wrapped), READONLY, "the graph's callable"},
    {NULL},
};

PyTypeObject Quiet_Type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "framejit.frontend.runtime._hook.Quiet",
    .tp_doc = "Quiet(callable)\n--\n\nCalls `callable` with this thread quiet.",
    .tp_basicsize = sizeof(Quiet),
    .tp_vectorcall_offset = offsetof(Quiet, vectorcall),
    .tp_call = PyVectorcall_Call,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_new = quiet_new,
    .tp_dealloc = (destructor)quiet_dealloc,
    .tp_traverse = (traverseproc)quiet_traverse,
    .tp_clear = (inquiry)quiet_clear,
    .tp_members = quiet_members,
};

/* ---- functions ---- */

static PyObject *
is_quiet(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
    return PyBool_FromLong(thread_mode.quiet != 0);
}

static PyObject *
current_handle(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
    Handle *handle = thread_mode.current;
    return Py_NewRef(handle != NULL ? (PyObject *)handle : Py_None);
}

static const char *const stance_names[] = {"", "default", "force_eager", "eager_on_recompile",
                                           "fail_on_recompile"};

static PyObject *
stance_name(Stance stance)
{
    return stance == STANCE_INHERITED ? Py_NewRef(Py_None)
                                      : PyUnicode_FromString(stance_names[stance]);
}

static PyObject *
stance(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
    return stance_name(stance_now());
}

static PyObject *
set_stance(PyObject *Py_UNUSED(module), PyObject *args)
{
    const char *name;
    int thread;
    if (!PyArg_ParseTuple(args, "zp:set_stance", &name, &thread)) {
        return NULL;
    }
    Stance wanted = STANCE_INHERITED;
    for (Stance known = STANCE_DEFAULT; name != NULL && known <= STANCE_FAIL_ON_RECOMPILE;
         known++) {
        wanted = strcmp(name, stance_names[known]) == 0 ? known : wanted;
    }
    if (wanted == STANCE_INHERITED && (name != NULL || !thread)) {
        PyErr_Format(PyExc_ValueError, "unknown stance '%s'", name != NULL ? name : "None");
        return NULL;
    }
    Stance *place = thread ? &thread_mode.stance : &process_stance;
    Stance before = *place;
    *place = wanted;
    return stance_name(before);
}

static PyObject *
disable_call(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *function, *positional, *keywords = NULL;
    if (!PyArg_ParseTuple(args, "OO!|O!:disable_call", &function, &PyTuple_Type, &positional,
                          &PyDict_Type, &keywords)) {
        return NULL;
    }
    ThreadMode *mode = &thread_mode;
    Handle *outer = mode->current;
    mode_set_current(mode, NULL);
    PyObject *result = PyObject_Call(function, positional, keywords);
    mode_set_current(mode, outer);
    return result;
}

static PyObject *
installed(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
    return PyBool_FromLong(*installation.slot == eval_hook);
}

static PyObject *
set_compiler_switch(PyObject *Py_UNUSED(module), PyObject *function)
{
    Py_XSETREF(compiler_switch, Py_NewRef(function));
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    {"is_quiet", is_quiet, METH_NOARGS, "is_quiet()\n--\n\nWhether this thread is quiet."},
    {"current_handle", current_handle, METH_NOARGS,
     "current_handle()\n--\n\nThe handle the hook is on for, or None."},
    {"stance", stance, METH_NOARGS, "stance()\n--\n\nThe stance that holds in this thread."},
    {"set_stance", set_stance, METH_VARARGS,
     "set_stance(name, thread)\n--\n\nSet the stance of the process, or of this thread (None: the "
     "process's); returns the one before."},
    {"disable_call", disable_call, METH_VARARGS,
     "disable_call(f, args, kwargs={})\n--\n\nCall f with the hook off for this thread."},
    {"installed", installed, METH_NOARGS,
     "installed()\n--\n\nWhether the process's frame evaluator is ours just now."},
    {"set_compiler_switch", set_compiler_switch, METH_O,
     "set_compiler_switch(f)\n--\n\nf(callback) sets the callback of another compiler of frames "
     "in this thread, None for none, and returns the one before: it is off while a handle runs."},
    {NULL},
};

/* ---- the module ---- */

static int
add_types(PyObject *module)
{
    PyTypeObject *types[] = {&Entry_Type,  &Site_Type,  &Continuation_Type, &ContinuationMaker_Type,
                             &Handle_Type, &Quiet_Type, &ModuleCall_Type};
    for (size_t i = 0; i < Py_ARRAY_LENGTH(types); i++) {
        if (PyModule_AddType(module, types[i]) < 0) {
            return -1;
        }
    }
    return 0;
}

static int
add_unbound(PyObject *module)
{
    if (unbound_marker == NULL &&
        (unbound_marker = PyObject_CallNoArgs((PyObject *)&PyBaseObject_Type)) == NULL) {
        return -1;
    }
    return PyModule_AddObjectRef(module, "UNBOUND", unbound_marker);
}

static int
module_exec(PyObject *module)
{
    if (PyInterpreterState_Get() != PyInterpreterState_Main()) {
        PyErr_SetString(PyExc_ImportError, "framejit works in the main interpreter only");
        return -1;
    }
    mode_init();
    return links_init() < 0 || module_call_init() < 0 || add_types(module) < 0 ||
                   add_unbound(module) < 0
               ? -1
               : 0;
}

static PyModuleDef_Slot module_slots[] = {
    {Py_mod_exec, module_exec},
    MAIN_INTERPRETER_ONLY{0, NULL},
};

static PyModuleDef module_definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "framejit.frontend.runtime._hook",
    .m_doc = "Handles, sites and entries, and the frame hook under them.",
    .m_methods = functions,
    .m_slots = module_slots,
};

PyMODINIT_FUNC
PyInit__hook(void)
{
    return PyModuleDef_Init(&module_definition);
}
