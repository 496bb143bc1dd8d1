/* Entry: a guard program and the code it guards. Checks and calls entries; does not know where they
 * are kept. */
#include "hook.h"

#include <structmember.h>

/* ---- guards ---- */

#define GUARD_MODULE "framejit.guards.native._guards"

static const framejit_guard_api *guards; /* set before the first entry with a program exists */

/* 0, without an exception, where there is no guard module (then no program can exist). */
static int
find_guards(void)
{
    /* PyCapsule_Import imports the outermost package only and goes on by attributes. */
    PyObject *module = guards == NULL ? PyImport_ImportModule(GUARD_MODULE) : NULL;
    if (module != NULL) {
        guards = PyCapsule_Import(FRAMEJIT_GUARD_CAPSULE, 0);
        Py_DECREF(module);
    }
    if (guards == NULL) {
        PyErr_Clear();
    }
    return guards != NULL;
}

int
program_holds(PyObject *program, PyObject *const *slots, Py_ssize_t nslots, PyObject *function,
              PyObject **lifted)
{
    return guards->run(program, slots, nslots, function, lifted);
}

/* ---- code for a frame's own closure ---- */

int
entry_fits_frame(Entry *entry, PyFunctionObject *function, Py_ssize_t nslots)
{
    PyCodeObject *code = entry->code;
    if (code == NULL || argument_slots(code) != nslots) {
        return 0;
    }
    Py_ssize_t cells =
        function->func_closure == NULL ? 0 : PyTuple_GET_SIZE(function->func_closure);
    return code->co_nfreevars == cells;
}

/* `code` with every argument slot positional, as that is how slots are handed over. */
static PyCodeObject *
make_positional(PyCodeObject *code)
{
    if (argument_slots(code) == code->co_argcount) {
        return (PyCodeObject *)Py_NewRef(code);
    }
    PyObject *made = NULL;
    PyObject *replace = PyObject_GetAttrString((PyObject *)code, "replace");
    PyObject *none = PyTuple_New(0);
    PyObject *changes = Py_BuildValue("{sisisisi}", "co_argcount", argument_slots(code),
                                      "co_posonlyargcount", 0, "co_kwonlyargcount", 0, "co_flags",
                                      code->co_flags & ~(CO_VARARGS | CO_VARKEYWORDS));
    if (replace != NULL && none != NULL && changes != NULL) {
        made = PyObject_Call(replace, none, changes);
    }
    Py_XDECREF(replace);
    Py_XDECREF(none);
    Py_XDECREF(changes);
    return (PyCodeObject *)made;
}

/* A function of the entry's code with the closure, globals and builtins of `like`. */
static PyObject *
make_function(Entry *entry, PyObject *like)
{
    if (!PyFunction_Check(like)) {
        PyErr_SetString(
            PyExc_SystemError,
            "framejit: an entry of code alone needs a function to take its closure from");
        return NULL;
    }
    PyFunctionObject *model = (PyFunctionObject *)like;
    if (!entry_fits_frame(entry, model, argument_slots(entry->code))) {
        PyErr_SetString(PyExc_SystemError,
                        "framejit: generated code has other free variables than its function");
        return NULL;
    }
    if (entry->positional == NULL && (entry->positional = make_positional(entry->code)) == NULL) {
        return NULL;
    }
    PyFunctionObject *made =
        (PyFunctionObject *)PyFunction_New((PyObject *)entry->positional, model->func_globals);
    if (made == NULL) {
        return NULL;
    }
    /* PyFunction_New looks builtins up again in the globals, which may have changed since `like`
     * was made. */
    Py_INCREF(model->func_builtins);
    Py_SETREF(made->func_builtins, model->func_builtins);
    if (model->func_closure != NULL &&
        PyFunction_SetClosure((PyObject *)made, model->func_closure) < 0) {
        Py_CLEAR(made);
    }
    return (PyObject *)made;
}

/* ---- calling ---- */

enum { FEW = 16 };

static PyObject *
call_with_lifted(PyThreadState *tstate, Handle *on, PyObject *function, PyObject *const *slots,
                 Py_ssize_t nslots, PyObject *lifted)
{
    PyObject *few[FEW + 2];
    /* One more in front: PY_VECTORCALL_ARGUMENTS_OFFSET. */
    PyObject **all = nslots <= FEW ? few : PyMem_New(PyObject *, nslots + 2);
    if (all == NULL) {
        return PyErr_NoMemory();
    }
    all[0] = NULL;
    memcpy(all + 1, slots, nslots * sizeof(PyObject *));
    all[nslots + 1] = lifted;
    size_t nargsf = (nslots + 1) | PY_VECTORCALL_ARGUMENTS_OFFSET;
    PyObject *result = call_in_mode(tstate, on, function, all + 1, nargsf, NULL);
    if (all != few) {
        PyMem_Free(all);
    }
    return result;
}

/* The only item of what a graph returned, which is taken over. */
static PyObject *
only_result(PyObject *results)
{
    PyObject *only = NULL;
    if (results != NULL && PyTuple_CheckExact(results) && PyTuple_GET_SIZE(results) == 1) {
        only = Py_NewRef(PyTuple_GET_ITEM(results, 0));
    }
    else if (results != NULL) {
        PyObject *sequence = PySequence_Tuple(results);
        if (sequence != NULL && PyTuple_GET_SIZE(sequence) == 1) {
            only = Py_NewRef(PyTuple_GET_ITEM(sequence, 0));
        }
        Py_XDECREF(sequence);
    }
    Py_XDECREF(results);
    return only;
}

/* What the entry's code would return, without running it; NULL where that has to be run after all,
 * or with an exception. */
static PyObject *
call_graph(PyThreadState *tstate, Entry *entry, PyObject *const *slots, PyObject *lifted)
{
    PyObject *few[FEW + 1];
    PyObject **arguments =
        entry->nlocations <= FEW ? few : PyMem_New(PyObject *, entry->nlocations + 1);
    if (arguments == NULL) {
        return NULL;
    }
    arguments[0] = NULL;
    for (Py_ssize_t i = 0; i < entry->nlocations; i++) {
        int location = entry->argument_locations[i];
        arguments[i + 1] =
            location >= 0 ? slots[location] : PyTuple_GET_ITEM(lifted, -1 - location);
    }
    PyObject *graph = Py_NewRef(entry->graph);
    size_t nargsf = entry->nlocations | PY_VECTORCALL_ARGUMENTS_OFFSET;
    PyObject *result = only_result(call_in_mode(tstate, NULL, graph, arguments + 1, nargsf, NULL));
    Py_DECREF(graph);
    if (arguments != few) {
        PyMem_Free(arguments);
    }
    if (result == NULL && PyErr_ExceptionMatches(PyExc_Exception) &&
        !(entry->passed_on != NULL && PyErr_ExceptionMatches(entry->passed_on))) {
        PyErr_Clear();
    }
    return result;
}

PyObject *
entry_call(PyThreadState *tstate, Entry *entry, Handle *handle, PyObject *like,
           PyObject *const *slots, size_t nslotsf, PyObject *lifted)
{
    if (entry->graph != NULL) {
        PyObject *found = call_graph(tstate, entry, slots, lifted);
        if (found != NULL || PyErr_Occurred()) {
            Py_XDECREF(lifted);
            return found;
        }
    }
    Handle *on = entry->needs_hook ? handle : NULL;
    PyObject *function =
        entry->function != NULL ? Py_NewRef(entry->function) : make_function(entry, like);
    PyObject *result = NULL;
    if (function == NULL) {
        Py_XDECREF(lifted);
        return NULL;
    }
    if (lifted == NULL) {
        result = call_in_mode(tstate, on, function, slots, nslotsf, NULL);
    }
    else {
        if (on != NULL && PyFunction_Check(function)) {
            thread_mode.release_lifted =
                &lifted; /* so that objects which the code deletes are freed then */
        }
        result = call_with_lifted(tstate, on, function, slots, PyVectorcall_NARGS(nslotsf), lifted);
        thread_mode.release_lifted = NULL;
        Py_XDECREF(lifted);
    }
    Py_DECREF(function);
    return result;
}

/* ---- the type ---- */

static int
check_code(PyObject *object)
{
    const int generator = CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR | CO_ITERABLE_COROUTINE;
    const int plain = CO_OPTIMIZED | CO_NEWLOCALS;
    if (!PyCode_Check(object)) {
        PyErr_SetString(PyExc_TypeError, "code must be a code object or None");
        return 0;
    }
    int flags = ((PyCodeObject *)object)->co_flags;
    if ((flags & plain) != plain || (flags & generator)) {
        PyErr_SetString(PyExc_ValueError, "code must be that of a plain function");
        return 0;
    }
    return 1;
}

static int
check_program(PyObject *program)
{
    if (!find_guards() || !Py_IS_TYPE(program, guards->program_type)) {
        PyErr_SetString(PyExc_TypeError, "program must be a guard program or None");
        return 0;
    }
    return 1;
}

/* How the graph is called: (graph, argument_locations, passed_on). */
static int
set_direct(Entry *self, PyObject *direct)
{
    PyObject *graph, *locations, *passed_on;
    if (!PyTuple_Check(direct)) {
        PyErr_SetString(PyExc_TypeError, "direct must be a tuple or None");
        return -1;
    }
    if (!PyArg_ParseTuple(direct, "OO!O!:direct", &graph, &PyTuple_Type, &locations, &PyTuple_Type,
                          &passed_on)) {
        return -1;
    }
    Py_ssize_t count = PyTuple_GET_SIZE(locations);
    if ((self->argument_locations = PyMem_New(int, count + 1)) == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        self->argument_locations[i] = (int)PyLong_AsLong(PyTuple_GET_ITEM(locations, i));
        if (PyErr_Occurred()) {
            return -1;
        }
    }
    self->nlocations = count;
    self->passed_on = Py_NewRef(passed_on);
    self->graph = Py_NewRef(graph);
    return 0;
}

static PyObject *
entry_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"program", "function", "code", "needs_hook",
                            "data",    "direct",   "once", NULL};
    PyObject *program = Py_None, *function = Py_None, *code = Py_None, *data = Py_None,
             *direct = Py_None;
    int needs_hook = 0, once = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|OOOpOOp:Entry", names, &program, &function,
                                     &code, &needs_hook, &data, &direct, &once)) {
        return NULL;
    }
    if (function != Py_None && !PyCallable_Check(function)) {
        PyErr_SetString(PyExc_TypeError, "function must be callable or None");
        return NULL;
    }
    if ((code != Py_None && !check_code(code)) || (program != Py_None && !check_program(program))) {
        return NULL;
    }
    Entry *self = (Entry *)type->tp_alloc(type, 0);
    if (self != NULL) {
        self->program = program == Py_None ? NULL : Py_NewRef(program);
        self->function = function == Py_None ? NULL : Py_NewRef(function);
        self->code = code == Py_None ? NULL : (PyCodeObject *)Py_NewRef(code);
        self->data = Py_NewRef(data);
        self->needs_hook = (char)needs_hook;
        self->once = (char)once;
        if (direct != Py_None && set_direct(self, direct) < 0) {
            Py_CLEAR(self);
        }
    }
    return (PyObject *)self;
}

static int
entry_traverse(Entry *self, visitproc visit, void *arg)
{
    Py_VISIT(self->program);
    Py_VISIT(self->function);
    Py_VISIT(self->code);
    Py_VISIT(self->positional);
    Py_VISIT(self->data);
    Py_VISIT(self->graph);
    Py_VISIT(self->passed_on);
    return 0;
}

static int
entry_clear(Entry *self)
{
    /* `program` stays: without it the entry would always hit. Programs have a tp_clear of their
     * own. */
    Py_CLEAR(self->function);
    Py_CLEAR(self->code);
    Py_CLEAR(self->positional);
    Py_CLEAR(self->data);
    Py_CLEAR(self->graph);
    Py_CLEAR(self->passed_on);
    return 0;
}

static void
entry_dealloc(Entry *self)
{
    PyObject_GC_UnTrack(self);
    entry_clear(self);
    Py_CLEAR(self->program);
    PyMem_Free(self->argument_locations);
    Py_TYPE(self)->tp_free(self);
}

static PyMemberDef entry_members[] = {
    {"program", T_OBJECT, offsetof(Entry, program), READONLY,
     "the guard program, or None: always hits"},
    {"function", T_OBJECT, offsetof(Entry, function), READONLY,
     "takes the slots, and the lifted tuple, by position"},
    {"code", T_OBJECT, offsetof(Entry, code), READONLY, "the generated code object"},
    {"graph", T_OBJECT, offsetof(Entry, graph), READONLY,
     "what is called instead of the code, where that only calls a graph"},
    {"needs_hook", T_BOOL, offsetof(Entry, needs_hook), READONLY,
     "whether the hook is on while it runs"},
    {"once", T_BOOL, offsetof(Entry, once), READONLY,
     "whether it serves the call that it was made for and no other"},
    {"hits", T_ULONGLONG, offsetof(Entry, hits), 0, "calls it served"},
    {"data", T_OBJECT, offsetof(Entry, data), 0, "whatever its maker keeps with it"},
    {NULL},
};

PyTypeObject Entry_Type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "framejit.frontend.runtime._hook.Entry",
    .tp_doc = "Entry(program=None, function=None, code=None, needs_hook=False, data=None, "
              "direct=None, once=False)\n--\n\n"
              "A guard program and the code it guards; with neither function nor code it says: run "
              "eager, with the "
              "hook off unless it is needed.",
    .tp_basicsize = sizeof(Entry),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_new = entry_new,
    .tp_dealloc = (destructor)entry_dealloc,
    .tp_traverse = (traverseproc)entry_traverse,
    .tp_clear = (inquiry)entry_clear,
    .tp_members = entry_members,
};
