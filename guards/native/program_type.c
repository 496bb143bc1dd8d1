/* The type guards.native.Program: a guard program as Python makes and runs it. */
#include "program.h"

#include <structmember.h>

#include "program_builder.h"
#include "snapshot.h"

/* Append the n-th check of a held tensor to those alike. */
static void
expect_held(Program *program, Py_ssize_t n)
{
    const Step *step = &program->steps[program->held + n];
    Alike *alike = program->alike + program->alike_count;
    program->held_temps[n] = step->src;
    if (program->alike_count == 0 || !fj_tensor_facts_equal(alike[-1].facts, step->tensor)) {
        *alike = (Alike){step->tensor, n, 0};
        program->alike_count++;
    }
    program->alike[program->alike_count - 1].count++;
}

static PyObject *
Program_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    PyObject *steps, *lifted, *anchors = NULL;
    Py_ssize_t temps, stable = PY_SSIZE_T_MAX, held = PY_SSIZE_T_MAX, last = PY_SSIZE_T_MAX,
                      fresh = PY_SSIZE_T_MAX;
    if (!PyArg_ParseTuple(args, "O!O!n|nnnnO!", &PyTuple_Type, &steps, &PyTuple_Type, &lifted,
                          &temps, &stable, &held, &last, &fresh, &PyTuple_Type, &anchors))
        return NULL;
    if (temps < 0 || temps > UINT16_MAX)
        return PyErr_Format(PyExc_ValueError, "%zd temps are too many", temps);
    stable = Py_MIN(stable, PyTuple_GET_SIZE(steps));
    held = Py_MIN(held, PyTuple_GET_SIZE(steps));
    last = Py_MIN(last, PyTuple_GET_SIZE(steps));
    fresh = Py_MIN(fresh, temps);
    if (stable < 0 || held < stable || last < held || fresh < 0)
        return PyErr_Format(PyExc_ValueError, "sections out of order");
    Program *self = (Program *)type->tp_alloc(type, 0);
    if (self == NULL)
        return NULL;
    self->temps = temps;
    self->steps = PyMem_Calloc(PyTuple_GET_SIZE(steps) + 1, sizeof(Step));
    self->stable = stable;
    self->held = held;
    self->last = last;
    self->fresh = fresh;
    self->lifted = PyMem_Calloc(PyTuple_GET_SIZE(lifted) + 1, sizeof *self->lifted);
    self->anchors =
        PyMem_Calloc(anchors ? PyTuple_GET_SIZE(anchors) + 1 : 1, sizeof *self->anchors);
    self->kept = PyMem_Calloc(held - stable + 1, sizeof *self->kept);
    self->alike = PyMem_Calloc(last - held + 1, sizeof *self->alike);
    self->held_temps = PyMem_Calloc(last - held + 1, sizeof *self->held_temps);
    if (self->steps == NULL || self->lifted == NULL || self->anchors == NULL ||
        self->kept == NULL || self->alike == NULL || self->held_temps == NULL) {
        Py_DECREF(self);
        return PyErr_NoMemory();
    }
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(steps); i++) {
        self->count = i + 1; /* so that dealloc frees a half-built step */
        if (fj_read_step(PyTuple_GET_ITEM(steps, i), &self->steps[i], temps) < 0) {
            Py_DECREF(self);
            return NULL;
        }
        self->owned += fj_makes_reference(&self->steps[i]);
        if (i >= held && i < last) {
            if (self->steps[i].op != OP_TENSOR) {
                Py_DECREF(self);
                return PyErr_Format(PyExc_ValueError, "step %zd is no check of a tensor", i);
            }
            expect_held(self, i - held);
        }
        if (i >= stable && i < held && self->steps[i].keep)
            self->kept[self->keeps++] = self->steps[i].dst;
    }
    self->lifts = PyTuple_GET_SIZE(lifted);
    self->anchor_count = anchors ? PyTuple_GET_SIZE(anchors) : 0;
    if (fj_read_temps(lifted, self->lifted, temps) < 0 ||
        (anchors && fj_read_temps(anchors, self->anchors, temps) < 0)) {
        Py_DECREF(self);
        return NULL;
    }
    return (PyObject *)self;
}

static int
Program_traverse(Program *self, visitproc visit, void *arg)
{
    for (Py_ssize_t i = 0; i < self->count; i++) {
        Step *step = &self->steps[i];
        Py_VISIT(step->object);
        if (step->op == OP_TENSOR && step->tensor)
            Py_VISIT(step->tensor->type);
        if (step->op == OP_TORCH_STATE && step->state)
            Py_VISIT(step->state->modes);
    }
    return fj_traverse_snapshots(self, visit, arg);
}

/* A cleared program has steps NULL: `evaluate` lets no frame pass. */
static int
Program_clear(Program *self)
{
    Py_ssize_t count = self->count;
    Step *steps = self->steps;
    fj_drop_snapshots(self);
    self->count = self->stable = self->held = self->last = 0;
    self->steps = NULL;
    self->lifts = self->anchor_count = self->keeps = 0;
    for (Py_ssize_t i = 0; i < count; i++)
        fj_clear_step(&steps[i]);
    PyMem_Free(steps);
    return 0;
}

static void
Program_dealloc(Program *self)
{
    PyObject_GC_UnTrack(self);
    Program_clear(self);
    PyMem_Free(self->lifted);
    PyMem_Free(self->anchors);
    PyMem_Free(self->kept);
    PyMem_Free(self->alike);
    PyMem_Free(self->held_temps);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

/* Run on (slots tuple, function), where UNBOUND in the tuple stands for NULL. -2 with an exception
 * for bad arguments. */
static Py_ssize_t
evaluate_arguments(Program *self, PyObject *const *args, Py_ssize_t nargs, PyObject **lifted)
{
    if (nargs != 2 || !PyTuple_Check(args[0]) || !PyFunction_Check(args[1])) {
        PyErr_SetString(PyExc_TypeError, "expected a tuple of slots and a function");
        return -2;
    }
    Py_ssize_t count = PyTuple_GET_SIZE(args[0]);
    PyObject *small[16], **slots = count <= 16 ? small : PyMem_New(PyObject *, count);
    if (slots == NULL) {
        PyErr_NoMemory();
        return -2;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *slot = PyTuple_GET_ITEM(args[0], i);
        slots[i] = slot == fj_unbound ? NULL : slot;
    }
    Py_ssize_t failed = fj_evaluate(self, (Frame){slots, count, args[1]}, lifted);
    if (slots != small)
        PyMem_Free(slots);
    return failed;
}

static PyObject *
Program_check(Program *self, PyObject *const *args, Py_ssize_t nargs)
{
    Py_ssize_t failed = evaluate_arguments(self, args, nargs, NULL);
    return failed == -2 ? NULL : PyBool_FromLong(failed == PASSED);
}

static PyObject *
Program_lifted(Program *self, PyObject *const *args, Py_ssize_t nargs)
{
    PyObject *lifted = NULL;
    Py_ssize_t failed = evaluate_arguments(self, args, nargs, &lifted);
    if (failed == -2)
        return NULL;
    if (failed != PASSED)
        Py_RETURN_NONE;
    return lifted ? lifted : PyTuple_New(0);
}

static PyObject *
Program_first_failure(Program *self, PyObject *const *args, Py_ssize_t nargs)
{
    Py_ssize_t failed = evaluate_arguments(self, args, nargs, NULL);
    return failed == -2 ? NULL : PyLong_FromSsize_t(failed);
}

static PyObject *
Program_compared(Program *self, void *closure)
{
    return PyLong_FromSsize_t(fj_snapshot_compared(self));
}

static PyGetSetDef Program_getset[] = {
    {"compared", (getter)Program_compared, NULL,
     "how many places in memory a run compares that skips the stable steps", NULL},
    {NULL},
};

static PyMethodDef Program_methods[] = {
    {"check", (PyCFunction)(void (*)(void))Program_check, METH_FASTCALL,
     "check(slots, function) -> bool"},
    {"lifted", (PyCFunction)(void (*)(void))Program_lifted, METH_FASTCALL,
     "lifted(slots, function) -> tuple of the lifted objects, or None if a guard fails"},
    {"first_failure", (PyCFunction)(void (*)(void))Program_first_failure, METH_FASTCALL,
     "first_failure(slots, function) -> index of the failing step, or -1"},
    {NULL},
};

static PyMemberDef Program_members[] = {
    {"steps", T_PYSSIZET, offsetof(Program, count), READONLY, "how many steps"},
    {"temps", T_PYSSIZET, offsetof(Program, temps), READONLY, "how many temps"},
    {"snapshots_taken", T_ULONGLONG, offsetof(Program, snapshots_taken), READONLY,
     "how often its stable state was written down to be watched"},
    {"reuses", T_ULONGLONG, offsetof(Program, reuses), READONLY,
     "runs that skipped the stable steps, as nothing had changed"},
    {NULL},
};

PyTypeObject fj_program_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "framejit.guards.native.Program",
    .tp_doc = "Program(steps, lifted, temps): guards, ready to run.",
    .tp_basicsize = sizeof(Program),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_new = Program_new,
    .tp_dealloc = (destructor)Program_dealloc,
    .tp_traverse = (traverseproc)Program_traverse,
    .tp_clear = (inquiry)Program_clear,
    .tp_methods = Program_methods,
    .tp_members = Program_members,
    .tp_getset = Program_getset,
};
