/* Reads the steps of a guard program: (op, dst, uses, keep, object, number) from steps.py. */
#include "program_builder.h"

static const char *const op_names[] = {
#define X(name) #name,
    OPS(X)
#undef X
};

static int
op_named(const char *name)
{
    for (int op = 0; op < OP_COUNT; op++)
        if (strcmp(op_names[op], name) == 0)
            return op;
    PyErr_Format(PyExc_ValueError, "no operation %s", name);
    return -1;
}

int
fj_read_temps(PyObject *from, uint16_t *into, Py_ssize_t temps)
{
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(from); i++) {
        Py_ssize_t temp = PyLong_AsSsize_t(PyTuple_GET_ITEM(from, i));
        if (temp == -1 && PyErr_Occurred())
            return -1;
        if (temp < 0 || temp >= temps) {
            PyErr_SetString(PyExc_ValueError, "no such temp");
            return -1;
        }
        into[i] = (uint16_t)temp;
    }
    return 0;
}

/* Fills the union: what a step needs besides its object. */
static int
fill_payload(Step *step, PyObject *uses, Py_ssize_t temps)
{
    switch ((Op)step->op) {
    case OP_INSTANCE_ITEM:
    case OP_DICT_ITEM:
    case OP_ABSENT:
    case OP_PRESENT:
    case OP_INSTANCE_ABSENT:
    case OP_INSTANCE_PRESENT:
        step->hash = PyObject_Hash(step->object);
        return step->hash == -1 ? -1 : 0;
    case OP_TENSOR: return (step->tensor = fj_tensor_facts_new(step->object)) ? 0 : -1;
    case OP_TORCH_STATE:
        if ((step->state = PyMem_Calloc(1, sizeof *step->state)))
            return 0;
        PyErr_NoMemory();
        return -1;
    case OP_ITEM_AT_KEY:
    case OP_HAS_KEY:
    case OP_SAME:
    case OP_DISTINCT:
    case OP_MEMORY:
    case OP_RELATION:
    case OP_SHAPE:
        step->uses = (uint16_t)PyTuple_GET_SIZE(uses);
        if ((step->others = PyMem_New(uint16_t, step->uses + 1)) == NULL) {
            PyErr_NoMemory();
            return -1;
        }
        if (step->op == OP_RELATION &&
            (step->relation = fj_relation_new(step->object, step->uses)) == NULL)
            return -1;
        if (step->op == OP_MEMORY &&
            (step->memory = fj_memory_new(step->object, step->uses)) == NULL)
            return -1;
        return fj_read_temps(uses, step->others, temps);
    default: return 0;
    }
}

int
fj_makes_reference(const Step *step)
{
    return step->keep || step->op == OP_ATTR || step->op == OP_INSTANCE_DICT ||
           step->op == OP_CALL || step->op == OP_ITERATOR_ITEM || step->op == OP_TENSOR_SIZE ||
           step->op == OP_TENSOR_STRIDE || step->op == OP_TENSOR_STORAGE_OFFSET;
}

/* A new reference; a name is interned, like the keys of classes and most dictionaries. */
static PyObject *
named(int op, PyObject *object)
{
    Py_INCREF(object);
    int name = op == OP_ATTR || op == OP_INSTANCE_ITEM || op == OP_INSTANCE_ABSENT ||
               op == OP_INSTANCE_PRESENT || op == OP_CLASS_ATTRIBUTE || op == OP_DICT_ITEM ||
               op == OP_ABSENT || op == OP_PRESENT;
    if (name && PyUnicode_CheckExact(object))
        PyUnicode_InternInPlace(&object);
    return object;
}

int
fj_read_step(PyObject *from, Step *step, Py_ssize_t temps)
{
    const char *name;
    int dst, keep, op;
    PyObject *uses, *object;
    Py_ssize_t number;
    if (!PyTuple_Check(from)) {
        PyErr_SetString(PyExc_TypeError, "a step is a tuple");
        return -1;
    }
    if (!PyArg_ParseTuple(from, "siO!pOn", &name, &dst, &PyTuple_Type, &uses, &keep, &object,
                          &number))
        return -1;
    if ((op = op_named(name)) < 0)
        return -1;
    if (PyTuple_GET_SIZE(uses) > UINT16_MAX || dst < 0 || (op < OP_TYPE && dst >= temps)) {
        PyErr_SetString(PyExc_ValueError, "no such temp");
        return -1;
    }
    *step = (Step){.op = (uint8_t)op,
                   .keep = (uint8_t)keep,
                   .dst = (uint16_t)dst,
                   .number = number,
                   .object = named(op, object)};
    if (PyTuple_GET_SIZE(uses) == 1 && fj_read_temps(uses, &step->src, temps) < 0)
        return -1;
    return fill_payload(step, uses, temps);
}

void
fj_clear_step(Step *step)
{
    if (step->op == OP_TENSOR)
        fj_tensor_facts_free(step->tensor);
    if (step->op == OP_TORCH_STATE && step->state) {
        Py_CLEAR(step->state->modes);
        PyMem_Free(step->state);
    }
    if (step->op == OP_ITEM_AT_KEY || step->op == OP_HAS_KEY || step->op == OP_SAME ||
        step->op == OP_DISTINCT || step->op == OP_MEMORY || step->op == OP_SHAPE ||
        step->op == OP_RELATION)
        PyMem_Free(step->others);
    if (step->op == OP_MEMORY)
        fj_memory_free(step->memory);
    if (step->op == OP_RELATION)
        fj_relation_free(step->relation);
    Py_CLEAR(step->object);
}
