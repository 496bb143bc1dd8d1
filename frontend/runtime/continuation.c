/* Continuation: returned by generated code to say where the call continues. The loop here runs it
 * in place, so depth, f_back and tracebacks are those of one call, and loops use no stack. Users
 * never see one. */
#include "hook.h"

#include <structmember.h>

typedef struct {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    Site *site;
    char eager;
} ContinuationMaker;

/* ---- Continuation ---- */

/* Not tracked by the GC: it exists between a return and the loop below, and nothing else sees it.
 */
static Continuation *spare; /* under the GIL; a loop makes and drops one each time round */

static PyObject *
continuation_make(Site *site, PyObject *state, char eager)
{
    Continuation *self = spare;
    if (self != NULL) {
        spare = NULL;
        PyObject_Init((PyObject *)self, &Continuation_Type);
    }
    else if ((self = PyObject_New(Continuation, &Continuation_Type)) == NULL) {
        return NULL;
    }
    self->site = (Site *)Py_NewRef(site);
    self->state = Py_NewRef(state);
    self->eager = eager;
    return (PyObject *)self;
}

static void
continuation_dealloc(Continuation *self)
{
    Site *site = self->site;
    PyObject *state = self->state;
    if (spare == NULL) {
        spare = self;
    }
    else {
        PyObject_Free(self);
    }
    Py_DECREF(site);
    Py_DECREF(state);
}

static PyObject *
continuation_new(PyTypeObject *Py_UNUSED(type), PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"site", "state", "eager", NULL};
    PyObject *site, *state;
    int eager = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!O|p:Continuation", names, &Site_Type, &site,
                                     &state, &eager)) {
        return NULL;
    }
    return continuation_make((Site *)site, state, (char)eager);
}

static PyMemberDef continuation_members[] = {
    {"site", T_OBJECT, offsetof(Continuation, site), READONLY},
    {"state", T_OBJECT, offsetof(Continuation, state), READONLY},
    {"eager", T_BOOL, offsetof(Continuation, eager), READONLY},
    {NULL},
};

PyTypeObject Continuation_Type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "framejit.frontend.runtime._hook.Continuation",
    .tp_doc = "Continuation(site, state, eager=False)\n--\n\nGo on at `site` with `state`.",
    .tp_basicsize = sizeof(Continuation),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_new = continuation_new,
    .tp_dealloc = (destructor)continuation_dealloc,
    .tp_members = continuation_members,
};

/* ---- running them ---- */

/* Steals `state`. With the hook on, it is released as soon as the frame of the generated code holds
 * it, so that objects which that code deletes are freed then; without the hook, when the code has
 * returned. */
static PyObject *
run_continuation(PyThreadState *tstate, Handle *handle, Site *site, PyObject *state, int eager)
{
    PyObject *buffer[] = {NULL, state};
    PyObject *lifted = NULL, *result, *function = site->function;
    const size_t nslotsf = 1 | PY_VECTORCALL_ARGUMENTS_OFFSET;
    Entry *entry = eager ? NULL : site_choose(site, buffer + 1, 1, function, &lifted);
    if (entry == NULL && PyErr_Occurred()) {
        Py_DECREF(state);
        return NULL;
    }
    if (entry != NULL && !entry_is_eager(entry)) {
        if (entry->needs_hook && (entry->function == NULL || PyFunction_Check(entry->function))) {
            thread_mode.release = &state;
        }
        result = entry_call(tstate, entry, handle, function, buffer + 1, nslotsf, lifted);
    }
    else {
        Handle *on = (entry == NULL ? !site->gave_up : entry->needs_hook) ? handle : NULL;
        Py_XDECREF(lifted);
        if (on != NULL && PyFunction_Check(function)) {
            thread_mode.release = &state;
        }
        result = call_in_mode(tstate, on, function, buffer + 1, nslotsf, NULL);
    }
    thread_mode.release = NULL;
    Py_XDECREF(entry);
    Py_XDECREF(state);
    return result;
}

PyObject *
run_continuations(PyThreadState *tstate, Handle *handle, PyObject *result)
{
    Py_INCREF(handle);
    while (result != NULL && Py_IS_TYPE(result, &Continuation_Type)) {
        Continuation *next = (Continuation *)result;
        Site *site = (Site *)Py_NewRef(next->site);
        PyObject *state = Py_NewRef(next->state);
        int eager = next->eager;
        Py_DECREF(next);
        result = run_continuation(tstate, handle, site, state, eager);
        Py_DECREF(site);
    }
    Py_DECREF(handle);
    return result;
}

/* ---- ContinuationMaker ---- */

static PyObject *
maker_call(ContinuationMaker *self, PyObject *const *args, size_t nargsf, PyObject *kwnames)
{
    if (PyVectorcall_NARGS(nargsf) != 1 || kwnames != NULL) {
        PyErr_SetString(PyExc_TypeError, "a ContinuationMaker takes the state and nothing else");
        return NULL;
    }
    return continuation_make(self->site, args[0], self->eager);
}

static PyObject *
maker_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"site", "eager", NULL};
    PyObject *site;
    int eager = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!|p:ContinuationMaker", names, &Site_Type,
                                     &site, &eager)) {
        return NULL;
    }
    if (((Site *)site)->function == Py_None) {
        PyErr_SetString(PyExc_TypeError, "the site of a continuation needs an eager function");
        return NULL;
    }
    ContinuationMaker *self = (ContinuationMaker *)type->tp_alloc(type, 0);
    if (self != NULL) {
        self->vectorcall = (vectorcallfunc)maker_call;
        self->site = (Site *)Py_NewRef(site);
        self->eager = (char)eager;
    }
    return (PyObject *)self;
}

static int
maker_traverse(ContinuationMaker *self, visitproc visit, void *arg)
{
    Py_VISIT(self->site);
    return 0;
}

static void
maker_dealloc(ContinuationMaker *self)
{
    PyObject_GC_UnTrack(self);
    Py_CLEAR(self->site);
    Py_TYPE(self)->tp_free(self);
}

static PyMemberDef maker_members[] = {
    {"site", T_OBJECT, offsetof(ContinuationMaker, site), READONLY,
     "where its continuations go on"},
    {"eager", T_BOOL, offsetof(ContinuationMaker, eager), READONLY,
     "whether they pass the entries by"},
    {NULL},
};

/* No tp_clear: its only edge leads to a Site, which has one. */
PyTypeObject ContinuationMaker_Type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "framejit.frontend.runtime._hook.ContinuationMaker",
    .tp_doc =
        "ContinuationMaker(site, eager=False)\n--\n\nWhat generated code calls with the state "
        "to make a Continuation.",
    .tp_basicsize = sizeof(ContinuationMaker),
    .tp_vectorcall_offset = offsetof(ContinuationMaker, vectorcall),
    .tp_call = PyVectorcall_Call,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_new = maker_new,
    .tp_dealloc = (destructor)maker_dealloc,
    .tp_traverse = (traverseproc)maker_traverse,
    .tp_members = maker_members,
};
