/* Handle: a compiled callable. It dispatches directly on its vectorcall arguments; no frame
 * evaluator is needed for that, only for the frames of nested calls. */
#include "hook.h"

#include <structmember.h>

/* ---- binding ---- */

enum { FEW = 16 };

/* The argument slots of a call, as the frame of the function would start with: strong references.
 */
typedef struct {
    PyObject **slots;
    Py_ssize_t count;
    PyObject *few[FEW + 1]; /* one in front: PY_VECTORCALL_ARGUMENTS_OFFSET */
} Bound;

static void
bound_release(Bound *bound)
{
    for (Py_ssize_t i = 0; i < bound->count; i++) {
        Py_XDECREF(bound->slots[i]);
    }
    if (bound->slots != bound->few + 1) {
        PyMem_Free(bound->slots - 1);
    }
}

static int
bind_positional(Bound *bound, PyCodeObject *code, PyObject *const *args, Py_ssize_t nargs)
{
    Py_ssize_t named = Py_MIN(nargs, code->co_argcount);
    for (Py_ssize_t i = 0; i < named; i++) {
        bound->slots[i] = Py_NewRef(args[i]);
    }
    if (!(code->co_flags & CO_VARARGS)) {
        return nargs == named;
    }
    PyObject *rest = PyTuple_New(nargs - named);
    for (Py_ssize_t i = named; rest != NULL && i < nargs; i++) {
        PyTuple_SET_ITEM(rest, i - named, Py_NewRef(args[i]));
    }
    bound->slots[code->co_argcount + code->co_kwonlyargcount] = rest;
    return rest != NULL;
}

/* The slot a keyword names; -1 for none (it goes to **kwargs), -2 for an error. */
static Py_ssize_t
keyword_slot(PyCodeObject *code, PyObject *name)
{
    Py_ssize_t end = code->co_argcount + code->co_kwonlyargcount;
    PyObject **names = &PyTuple_GET_ITEM(code->co_localsplusnames, 0);
    for (Py_ssize_t i = code->co_posonlyargcount; i < end; i++) {
        if (names[i] == name) {
            return i;
        }
    }
    if (!PyUnicode_CheckExact(name)) {
        return -2; /* a str subclass may compare as it likes: Python's own binding has it */
    }
    for (Py_ssize_t i = code->co_posonlyargcount; i < end; i++) {
        if (PyUnicode_Compare(names[i], name) == 0) {
            return i;
        }
    }
    return -1;
}

static int
bind_keywords(Bound *bound, PyCodeObject *code, PyObject *const *values, PyObject *kwnames)
{
    PyObject *others = NULL;
    if (code->co_flags & CO_VARKEYWORDS) {
        if ((others = PyDict_New()) == NULL) {
            return 0;
        }
        bound->slots[bound->count - 1] = others;
    }
    Py_ssize_t count = kwnames == NULL ? 0 : PyTuple_GET_SIZE(kwnames);
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *name = PyTuple_GET_ITEM(kwnames, i);
        Py_ssize_t slot = keyword_slot(code, name);
        if (slot >= 0 && bound->slots[slot] == NULL) {
            bound->slots[slot] = Py_NewRef(values[i]);
        }
        else if (slot != -1 || others == NULL || PyDict_SetItem(others, name, values[i]) < 0) {
            return 0;
        }
    }
    return 1;
}

static int
bind_defaults(Bound *bound, PyCodeObject *code, PyFunctionObject *function)
{
    PyObject *defaults = function->func_defaults, *kwdefaults = function->func_kwdefaults;
    Py_ssize_t with_default = defaults == NULL ? 0 : PyTuple_GET_SIZE(defaults);
    Py_ssize_t first = code->co_argcount - with_default;
    for (Py_ssize_t i = 0; i < code->co_argcount; i++) {
        if (bound->slots[i] != NULL) {
            continue;
        }
        if (i < first) {
            return 0;
        }
        bound->slots[i] = Py_NewRef(PyTuple_GET_ITEM(defaults, i - first));
    }
    for (Py_ssize_t i = code->co_argcount; i < code->co_argcount + code->co_kwonlyargcount; i++) {
        if (bound->slots[i] != NULL) {
            continue;
        }
        PyObject *name = PyTuple_GET_ITEM(code->co_localsplusnames, i);
        PyObject *value = kwdefaults == NULL ? NULL : PyDict_GetItemWithError(kwdefaults, name);
        if (value == NULL) {
            return 0;
        }
        bound->slots[i] = Py_NewRef(value);
    }
    return 1;
}

/* 0, holding nothing and without an exception, where Python itself has to bind the arguments and
 * raise its error. */
static int
bind(Bound *bound, Handle *self, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    PyCodeObject *code = self->code;
    bound->count = self->root->nslots;
    bound->slots = bound->few + 1;
    if (bound->count > FEW) {
        PyObject **many = PyMem_New(PyObject *, bound->count + 1);
        if (many == NULL) {
            return 0;
        }
        bound->slots = many + 1;
    }
    memset(bound->slots - 1, 0, (bound->count + 1) * sizeof(PyObject *));
    if (bind_positional(bound, code, args, nargs) &&
        bind_keywords(bound, code, args + nargs, kwnames) &&
        bind_defaults(bound, code, self->function)) {
        return 1;
    }
    PyErr_Clear();
    bound_release(bound);
    return 0;
}

/* ---- calling ---- */

static PyObject *
call_method_quietly(PyObject *object, const char *name, PyObject *argument)
{
    PyObject *method = PyObject_GetAttrString(object, name);
    PyObject *args[] = {argument};
    PyObject *result = method != NULL ? call_quietly(method, args, argument != NULL, NULL) : NULL;
    Py_XDECREF(method);
    return result;
}

/* A call as it came, for running the user's own function. */
typedef struct {
    PyObject *const *args;
    size_t nargsf;
    PyObject *kwnames;
    PyThreadState *tstate;
} Call;

static inline PyObject *
run_eager(Handle *self, Handle *on, const Call *call)
{
    return call_in_mode(call->tstate, on, (PyObject *)self->function, call->args, call->nargsf,
                        call->kwnames);
}

static PyObject *
run_slots(Handle *self, PyObject *const *slots, size_t nslotsf, const Call *call)
{
    PyObject *lifted, *result, *function = (PyObject *)self->function;
    Entry *entry = site_choose(self->root, slots, PyVectorcall_NARGS(nslotsf), function, &lifted);
    if (entry == NULL) {
        return PyErr_Occurred() ? NULL : run_eager(self, self->root->gave_up ? NULL : self, call);
    }
    if (entry_is_eager(entry)) {
        Py_XDECREF(lifted);
        result = run_eager(self, entry->needs_hook ? self : NULL, call);
    }
    else {
        result = entry_call(call->tstate, entry, self, function, slots, nslotsf, lifted);
        result = finish_continuations(call->tstate, self, result);
    }
    Py_DECREF(entry);
    return result;
}

static PyObject *
run_bound(Handle *self, const Call *call)
{
    Bound bound;
    if (!bind(&bound, self, call->args, PyVectorcall_NARGS(call->nargsf), call->kwnames)) {
        return run_eager(self, self, call);
    }
    PyObject *result =
        run_slots(self, bound.slots, bound.count | PY_VECTORCALL_ARGUMENTS_OFFSET, call);
    bound_release(&bound);
    return result;
}

/* Whether this call should be the plain function's: no compiled code, no change of mode. */
static inline int
steps_aside(PyThreadState *tstate, Handle *self)
{
    return thread_mode.quiet || stance_now() == STANCE_FORCE_EAGER ||
           self->function->func_code != (PyObject *)self->code || code_watched(tstate, self->code);
}

static PyObject *
run_compiled(Handle *self, const Call *call)
{
    if (self->root->skip) {
        return run_eager(self, self, call);
    }
    if (call->kwnames == NULL && PyVectorcall_NARGS(call->nargsf) == self->simple_nargs) {
        return run_slots(self, call->args, call->nargsf, call);
    }
    return run_bound(self, call);
}

/* A call while it is not known whether compiled code is faster than the whole call in eager.
 * comparison.begin() says whether to run this one in eager, comparison.end(result) is called when
 * it has returned. */
static PyObject *
run_measured(Handle *self, const Call *call)
{
    if (self->unmeasured > 0) {
        self->unmeasured--;
        return run_eager(self, NULL, call);
    }
    PyObject *comparison = Py_NewRef(self->comparison);
    PyObject *in_eager = call_method_quietly(comparison, "begin", NULL);
    PyObject *result = NULL;
    if (in_eager != NULL) {
        result = in_eager == Py_True ? run_eager(self, NULL, call) : run_compiled(self, call);
        Py_DECREF(in_eager);
    }
    if (result != NULL) {
        PyObject *told = call_method_quietly(comparison, "end", result);
        if (told == NULL) {
            Py_CLEAR(result);
        }
        Py_XDECREF(told);
    }
    Py_DECREF(comparison);
    return result;
}

static PyObject *
run(Handle *self, const Call *call)
{
    if (self->comparison != NULL && self->comparison != Py_None) {
        return run_measured(self, call);
    }
    return run_compiled(self, call);
}

/* Another compiler's evaluator is installed: while the call lasts it is off in this thread, or it
 * would be given the code that we built. */
static PyObject *
run_beside_another(Handle *self, const Call *call)
{
    PyObject *callback = compiler_switch != NULL ? PyObject_CallOneArg(compiler_switch, Py_None)
                                                 : Py_NewRef(Py_None);
    if (callback == NULL) {
        return NULL;
    }
    PyObject *result = run(self, call);
    if (callback != Py_None) {
        PyObject *type, *value, *traceback;
        PyErr_Fetch(&type, &value, &traceback);
        PyObject *ours = PyObject_CallOneArg(compiler_switch, callback);
        if (ours == NULL) {
            PyErr_WriteUnraisable(compiler_switch);
        }
        Py_XDECREF(ours);
        PyErr_Restore(type, value, traceback);
    }
    Py_DECREF(callback);
    return result;
}

static PyObject *
handle_call(Handle *self, PyObject *const *args, size_t nargsf, PyObject *kwnames)
{
    Call call = {args, nargsf, kwnames, PyThreadState_Get()};
    if (steps_aside(call.tstate, self)) {
        return call_vector((PyObject *)self->function, args, nargsf, kwnames);
    }
    return is_foreign(*installation.slot) ? run_beside_another(self, &call) : run(self, &call);
}

/* ---- the type ---- */

static PyObject *
handle_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"function", "root", "on_frame", NULL};
    PyObject *function, *root, *on_frame = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!O!|O:Handle", names, &PyFunction_Type,
                                     &function, &Site_Type, &root, &on_frame)) {
        return NULL;
    }
    PyCodeObject *code = (PyCodeObject *)PyFunction_GET_CODE(function);
    const int variadic = CO_VARARGS | CO_VARKEYWORDS;
    Py_ssize_t nslots = argument_slots(code);
    if (((Site *)root)->nslots != nslots) {
        PyErr_Format(PyExc_ValueError, "the root site has %zd slots, %U has %zd",
                     ((Site *)root)->nslots, code->co_name, nslots);
        return NULL;
    }
    Handle *self = (Handle *)type->tp_alloc(type, 0);
    if (self != NULL) {
        self->vectorcall = (vectorcallfunc)handle_call;
        self->function = (PyFunctionObject *)Py_NewRef(function);
        self->code = (PyCodeObject *)Py_NewRef(code);
        self->root = (Site *)Py_NewRef(root);
        self->on_frame = Py_NewRef(on_frame);
        self->simple_nargs =
            (code->co_flags & variadic) || code->co_kwonlyargcount ? -1 : code->co_argcount;
    }
    return (PyObject *)self;
}

static int
handle_traverse(Handle *self, visitproc visit, void *arg)
{
    Py_VISIT(self->function);
    Py_VISIT(self->code);
    Py_VISIT(self->root);
    Py_VISIT(self->on_frame);
    Py_VISIT(self->comparison);
    Py_VISIT(self->dict);
    return links_traverse(self, visit, arg);
}

static int
handle_clear(Handle *self)
{
    /* `function` and `root` stay, so that a call never finds them missing; both have a tp_clear of
     * their own. */
    Py_CLEAR(self->on_frame);
    Py_CLEAR(self->comparison);
    Py_CLEAR(self->dict);
    links_drop(self);
    return 0;
}

static void
handle_dealloc(Handle *self)
{
    PyObject_GC_UnTrack(self);
    if (self->weakrefs != NULL) {
        PyObject_ClearWeakRefs((PyObject *)self);
    }
    handle_clear(self);
    Py_CLEAR(self->function);
    Py_CLEAR(self->code);
    Py_CLEAR(self->root);
    Py_TYPE(self)->tp_free(self);
}

static PyObject *
handle_descr_get(PyObject *self, PyObject *instance, PyObject *Py_UNUSED(owner))
{
    return instance == NULL || instance == Py_None ? Py_NewRef(self) : PyMethod_New(self, instance);
}

static PyObject *
handle_repr(Handle *self)
{
    return PyUnicode_FromFormat("<framejit handle of %U at %p>", self->function->func_qualname,
                                self);
}

static PyObject *
handle_sites(Handle *self, PyObject *Py_UNUSED(none))
{
    return links_list(self);
}

static PyObject *
handle_forget(Handle *self, PyObject *Py_UNUSED(none))
{
    links_drop(self);
    Py_RETURN_NONE;
}

static PyMethodDef handle_methods[] = {
    {"sites", (PyCFunction)handle_sites, METH_NOARGS,
     "sites()\n--\n\nThe code objects met by the hook: a list of (code, site or None)."},
    {"forget", (PyCFunction)handle_forget, METH_NOARGS,
     "forget()\n--\n\nForget the code objects met by the hook."},
    {NULL},
};

static PyMemberDef handle_members[] = {
    {"function", T_OBJECT, offsetof(Handle, function), READONLY, "the user's function"},
    {"root", T_OBJECT, offsetof(Handle, root), READONLY, "the site of the function itself"},
    {"on_frame", T_OBJECT, offsetof(Handle, on_frame), 0,
     "on_frame(handle, code, function) -> Site | None"},
    {"comparison", T_OBJECT, offsetof(Handle, comparison), 0,
     "whose begin() and end(result) are called around each call, or None"},
    {"unmeasured", T_PYSSIZET, offsetof(Handle, unmeasured), 0,
     "calls in eager before they are measured again"},
    {NULL},
};

static PyGetSetDef handle_getset[] = {
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict},
    {NULL},
};

PyTypeObject Handle_Type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "framejit.frontend.runtime._hook.Handle",
    .tp_doc = "Handle(function, root, on_frame=None)\n--\n\nCalls `function` through the entries "
              "of its sites.",
    .tp_basicsize = sizeof(Handle),
    .tp_dictoffset = offsetof(Handle, dict),
    .tp_weaklistoffset = offsetof(Handle, weakrefs),
    .tp_vectorcall_offset = offsetof(Handle, vectorcall),
    .tp_call = PyVectorcall_Call,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL |
                Py_TPFLAGS_METHOD_DESCRIPTOR,
    .tp_new = handle_new,
    .tp_dealloc = (destructor)handle_dealloc,
    .tp_traverse = (traverseproc)handle_traverse,
    .tp_clear = (inquiry)handle_clear,
    .tp_repr = (reprfunc)handle_repr,
    .tp_descr_get = handle_descr_get,
    .tp_methods = handle_methods,
    .tp_members = handle_members,
    .tp_getset = handle_getset,
};
