/* The guard evaluator: a Program is a flat array of loads and checks over numbered temps, run by
 * one switch.
 *
 * In: steps from program.py, (op, dst, uses, keep, object, number). What they mean is
 * reference.py's to say. Temps are borrowed references. A load that makes a new object, or whose
 * object Python code could drop before its last use (`keep`), also goes on the list of owned
 * references, which are dropped at the end. */
#include "program.h"

#include <structmember.h>

#include "snapshot.h"
#include "iterators.h"
#include "guard_api.h"

static const char *const op_names[] = {
#define X(name) #name,
    OPS(X)
#undef X
};

static PyObject *unbound;   /* stands for NULL in a tuple of slots */
static PyTypeObject *deque; /* no C API of its own */

/* ---- loads that need more than a line ---- */

static int
is_function(PyObject *function)
{
    return function && PyFunction_Check(function);
}

static PyObject *
closure_cell(PyObject *function, Py_ssize_t index)
{
    PyObject *closure = is_function(function) ? PyFunction_GET_CLOSURE(function) : NULL;
    return closure && index >= 0 && index < PyTuple_GET_SIZE(closure)
               ? PyTuple_GET_ITEM(closure, index)
               : NULL;
}

static PyObject *
sequence_item(PyObject *sequence, Py_ssize_t index)
{
    if (PyList_Check(sequence)) {
        if (index < 0)
            index += PyList_GET_SIZE(sequence);
        return index >= 0 && index < PyList_GET_SIZE(sequence) ? PyList_GET_ITEM(sequence, index)
                                                               : NULL;
    }
    if (!PyTuple_Check(sequence))
        return NULL;
    if (index < 0)
        index += PyTuple_GET_SIZE(sequence);
    return index >= 0 && index < PyTuple_GET_SIZE(sequence) ? PyTuple_GET_ITEM(sequence, index)
                                                            : NULL;
}

/* A new reference to the item `ahead` steps on in an iterator or deque; iterators unknown to C are
 * read by Python. */
static PyObject *
iterator_item(PyObject *iterator, const Step *step)
{
    if (PyObject_TypeCheck(iterator, deque)) {
        Py_ssize_t at = step->number;
        return deque->tp_as_sequence->sq_item(iterator, at < 0 ? at + Py_SIZE(iterator) : at);
    }
    PyObject *item = fj_peek(iterator, step->number);
    return item || PyErr_Occurred() ? item : PyObject_CallOneArg(step->object, iterator);
}

static PyObject *
mro_item(PyObject *type, Py_ssize_t index)
{
    PyObject *mro = PyType_Check(type) ? ((PyTypeObject *)type)->tp_mro : NULL;
    return mro ? sequence_item(mro, index) : NULL;
}

/* Whether a key that may be another one in each call can be looked up without running Python. */
static int
is_key(PyObject *key)
{
    return PyUnicode_CheckExact(key) || PyLong_CheckExact(key);
}

/* Borrowed. */
static PyObject *
item_at_key(PyObject *const *temps, const Step *step)
{
    PyObject *of = temps[step->others[0]], *key = temps[step->others[1]];
    if (!PyDict_Check(of) || !is_key(key))
        return NULL;
    PyObject *item = PyDict_GetItemWithError(of, key);
    if (item == NULL)
        PyErr_Clear();
    return item;
}

static PyObject *
has_key(PyObject *const *temps, const Step *step)
{
    PyObject *of = temps[step->others[0]], *key = temps[step->others[1]];
    int found = -1;
    if (is_key(key))
        found = PyDict_Check(of)  ? PyDict_Contains(of, key)
                : PySet_Check(of) ? PySet_Contains(of, key)
                                  : -1;
    if (found < 0) {
        PyErr_Clear();
        return NULL;
    }
    return found ? Py_True : Py_False;
}

/* The index-th key in the order of iteration: an OrderedDict keeps its own. Borrowed. */
static PyObject *
dict_key(PyObject *dict, Py_ssize_t index)
{
    PyObject *key = NULL;
    if (index < 0 || !PyDict_Check(dict) || index >= PyDict_GET_SIZE(dict))
        return NULL;
    if (PyODict_Check(dict)) {
        PyObject *keys = PyODict_Type.tp_iter(dict);
        for (Py_ssize_t i = 0; keys && i <= index; i++) {
            key = Py_TYPE(keys)->tp_iternext(keys);
            Py_XDECREF(key); /* the dictionary holds it */
        }
        Py_XDECREF(keys);
        PyErr_Clear();
        return key;
    }
    Py_ssize_t position = 0;
    for (Py_ssize_t i = 0; i <= index; i++)
        if (!PyDict_Next(dict, &position, &key, NULL))
            return NULL;
    return key;
}

/* A new reference; None for an object that can have no dictionary; NULL for a class. */
static PyObject *
instance_dict(PyObject *object)
{
    if (PyType_Check(object))
        return NULL;
    fj_instance view = fj_instance_of(object);
    if (view.dict)
        return Py_NewRef(view.dict);
    return view.can ? PyObject_GenericGetDict(object, NULL) : Py_NewRef(Py_None);
}

/* A new int, or NULL. */
static PyObject *
tensor_number(PyObject *tensor, fj_tensor_number what, const Step *step)
{
    int64_t number;
    int found = fj_tensor_read(tensor, what, step->number, &number);
    if (found > 0)
        return PyLong_FromLongLong(number);
    return found == 0 ? NULL : PyObject_CallFunction(step->object, "On", tensor, step->number);
}

/* Borrowed; `unbound` for an attribute that the class has not. */
static PyObject *
class_attribute(PyObject *type, PyObject *name)
{
    if (!PyType_Check(type))
        return NULL;
    PyObject *found = _PyType_Lookup((PyTypeObject *)type, name);
    return found ? found : PyErr_Occurred() ? NULL : unbound;
}

/* A field of a function, borrowed; the numbers are section.py's FUNCTION_FIELDS. */
static PyObject *
function_field(PyObject *function, Py_ssize_t number)
{
    PyObject **place = fj_function_field(function, number);
    return place == NULL ? NULL : *place ? *place : Py_None;
}

/* One of the functions of a property, borrowed. */
static PyObject *
property_field(PyObject *property, Py_ssize_t number)
{
    PyObject **place =
        Py_IS_TYPE(property, &PyProperty_Type) ? fj_property_field(property, number) : NULL;
    return place == NULL ? NULL : *place ? *place : Py_None;
}

/* ---- checks that need more than a line ---- */

/* len() of the builtin base class; -1 for any other object. */
static Py_ssize_t
builtin_length(PyObject *object)
{
    if (PyDict_Check(object))
        return PyDict_GET_SIZE(object);
    if (PyList_Check(object) || PyTuple_Check(object))
        return Py_SIZE(object);
    if (PyAnySet_Check(object))
        return PySet_GET_SIZE(object);
    if (PyUnicode_Check(object))
        return PyUnicode_GET_LENGTH(object);
    if (PyBytes_Check(object) || PyByteArray_Check(object))
        return Py_SIZE(object);
    if (PyObject_TypeCheck(object, deque))
        return deque->tp_as_sequence->sq_length(object);
    if (PyRange_Check(object))
        return PyRange_Type.tp_as_sequence->sq_length(object);
    return -1;
}

static int
ordered_keys_match(PyObject *dict, PyObject *keys)
{
    PyObject *iterator = PyODict_Type.tp_iter(dict);
    int match = iterator != NULL;
    for (Py_ssize_t i = 0; match && i < PyTuple_GET_SIZE(keys); i++) {
        PyObject *key = Py_TYPE(iterator)->tp_iternext(iterator);
        match = key && fj_same_key(PyTuple_GET_ITEM(keys, i), key);
        Py_XDECREF(key);
    }
    Py_XDECREF(iterator);
    return match;
}

static int
keys_match(const fj_instance *view, PyObject *keys)
{
    if (fj_instance_length(view) != PyTuple_GET_SIZE(keys))
        return 0;
    if (view->dict && PyODict_Check(view->dict) && PyTuple_GET_SIZE(keys) > 1)
        return ordered_keys_match(view->dict, keys);
    Py_ssize_t position = 0;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(keys); i++) {
        PyObject *key = fj_instance_next(view, &position);
        if (key == NULL || !fj_same_key(PyTuple_GET_ITEM(keys, i), key))
            return 0;
    }
    return 1;
}

/* Whether each of the first `number` objects differs from all others. */
static int
distinct_few(PyObject *const *temps, const Step *step)
{
    for (int i = 0; i < step->number; i++)
        for (int j = i + 1; j < step->uses; j++)
            if (temps[step->others[i]] == temps[step->others[j]])
                return 0;
    return 1;
}

/* By a table of pointers, open addressing, at most half full. */
static int
distinct(PyObject *const *temps, const Step *step)
{
    int count = step->uses;
    if (count <= 8 || step->number <= 4)
        return distinct_few(temps, step);
    size_t size = 16;
    while (size < 2 * (size_t)count)
        size *= 2;
    PyObject *small[256], **table = size <= 256 ? small : PyMem_Malloc(size * sizeof *table);
    if (table == NULL)
        return 0;
    memset(table, 0, size * sizeof *table);
    int same = 0;
    for (int i = 0; i < count && !same; i++) {
        PyObject *object = temps[step->others[i]];
        size_t at = ((uintptr_t)object >> 4) * 0x9E3779B97F4A7C15u >> 20 & (size - 1);
        while (table[at] && table[at] != object)
            at = (at + 1) & (size - 1);
        same = table[at] == object;
        table[at] = object;
    }
    if (table != small)
        PyMem_Free(table);
    return !same;
}

static int
call_is_true(PyObject *callable, PyObject *const *arguments, size_t count)
{
    PyObject *answer = PyObject_Vectorcall(callable, arguments, count, NULL);
    int truth = answer ? PyObject_IsTrue(answer) : 0;
    Py_XDECREF(answer);
    return truth == 1;
}

static int
relation_holds(const Step *step, PyObject *const *temps)
{
    PyObject *small[16],
        **arguments = step->uses <= 16 ? small : PyMem_Malloc(step->uses * sizeof *arguments);
    if (arguments == NULL)
        return 0;
    for (int i = 0; i < step->uses; i++)
        arguments[i] = temps[step->others[i]];
    int holds = call_is_true(step->object, arguments, step->uses);
    if (arguments != small)
        PyMem_Free(arguments);
    return holds;
}

/* ---- the run ---- */

Py_ssize_t
fj_run_steps(Program *program, Frame frame, PyObject **temps, PyObject **owns, Py_ssize_t *owned,
             Py_ssize_t from, Py_ssize_t to)
{
    Py_ssize_t held = *owned, index = from;

#define BORROWED(expression)                  \
    do {                                      \
        PyObject *loaded = (expression);      \
        if (loaded == NULL)                   \
            goto failed;                      \
        if (step->keep)                       \
            owns[held++] = Py_NewRef(loaded); \
        temps[step->dst] = loaded;            \
    } while (0);                              \
    break
#define OWNED(expression)                         \
    do {                                          \
        PyObject *loaded = (expression);          \
        if (loaded == NULL)                       \
            goto failed;                          \
        owns[held++] = temps[step->dst] = loaded; \
    } while (0);                                  \
    break
#define REQUIRE(condition) \
    if (!(condition))      \
        goto failed;       \
    break
#define OF temps[step->src]

    for (; index < to; index++) {
        Step *step = &program->steps[index];
        switch ((Op)step->op) {
        case OP_SLOT:
            BORROWED((size_t)step->number < (size_t)frame.nslots ? frame.slots[step->number]
                                                                 : NULL);
        case OP_CLOSURE: BORROWED(closure_cell(frame.function, step->number));
        case OP_GLOBALS:
            BORROWED(is_function(frame.function) ? PyFunction_GET_GLOBALS(frame.function) : NULL);
        case OP_BUILTINS:
            BORROWED(is_function(frame.function)
                         ? ((PyFunctionObject *)frame.function)->func_builtins
                         : NULL);
        case OP_CONSTANT: BORROWED(step->object);
        case OP_CELL: BORROWED(PyCell_Check(OF) ? PyCell_GET(OF) : NULL);
        case OP_ATTR: OWNED(PyObject_GetAttr(OF, step->object));
        case OP_INSTANCE_DICT: OWNED(instance_dict(OF));
        case OP_INSTANCE_ITEM:
            BORROWED(PyType_Check(OF)
                         ? NULL
                         : fj_instance_item(OF, step->object, step->hash, &step->hint));
        case OP_TYPE_OF: BORROWED((PyObject *)Py_TYPE(OF));
        case OP_CLASS_DICT: BORROWED(PyType_Check(OF) ? fj_type_dict((PyTypeObject *)OF) : NULL);
        case OP_CLASS_ATTRIBUTE: BORROWED(class_attribute(OF, step->object));
        case OP_MRO_ITEM: BORROWED(mro_item(OF, step->number));
        case OP_DICT_ITEM:
            BORROWED(PyDict_Check(OF) ? fj_dict_item(OF, step->object, step->hash, &step->hint)
                                      : NULL);
        case OP_DICT_KEY: BORROWED(dict_key(OF, step->number));
        case OP_ITEM_AT_KEY: BORROWED(item_at_key(temps, step));
        case OP_HAS_KEY: BORROWED(has_key(temps, step));
        case OP_SEQUENCE_ITEM: BORROWED(sequence_item(OF, step->number));
        case OP_ITERATOR_ITEM: OWNED(iterator_item(OF, step));
        case OP_CALL: OWNED(PyObject_CallOneArg(step->object, OF));
        case OP_FUNCTION_FIELD: BORROWED(is_function(OF) ? function_field(OF, step->number) : NULL);
        case OP_PROPERTY_FIELD: BORROWED(property_field(OF, step->number));
        case OP_TENSOR_SIZE: OWNED(tensor_number(OF, FJ_SIZE, step));
        case OP_TENSOR_STRIDE: OWNED(tensor_number(OF, FJ_STRIDE, step));
        case OP_TENSOR_STORAGE_OFFSET: OWNED(tensor_number(OF, FJ_STORAGE_OFFSET, step));

        case OP_TYPE: REQUIRE((PyObject *)Py_TYPE(OF) == step->object);
        case OP_IS: REQUIRE(OF == step->object);
        case OP_EQUALS: REQUIRE(OF == step->object || fj_same_constant(step->object, OF));
        case OP_LENGTH: REQUIRE(builtin_length(OF) == step->number);
        case OP_KEYS:
            REQUIRE(PyDict_Check(OF) && keys_match(&(fj_instance){.dict = OF}, step->object));
        case OP_ABSENT:
            REQUIRE(OF == Py_None ||
                    (PyDict_Check(OF) && !fj_dict_item(OF, step->object, step->hash, &step->hint)));
        case OP_PRESENT:
            REQUIRE(PyDict_Check(OF) && fj_dict_item(OF, step->object, step->hash, &step->hint));
        case OP_INSTANCE_LENGTH: {
            fj_instance view = fj_instance_of(OF);
            REQUIRE(!PyType_Check(OF) && view.can && fj_instance_length(&view) == step->number);
        }
        case OP_INSTANCE_KEYS: {
            fj_instance view = fj_instance_of(OF);
            REQUIRE(!PyType_Check(OF) && view.can && keys_match(&view, step->object));
        }
        case OP_INSTANCE_ABSENT:
            REQUIRE(!PyType_Check(OF) &&
                    !fj_instance_item(OF, step->object, step->hash, &step->hint));
        case OP_INSTANCE_PRESENT:
            REQUIRE(!PyType_Check(OF) &&
                    fj_instance_item(OF, step->object, step->hash, &step->hint));
        case OP_TENSOR: REQUIRE(fj_tensor_matches(step->tensor, OF));
        case OP_SAME: REQUIRE(temps[step->others[0]] == temps[step->others[1]]);
        case OP_DISTINCT: REQUIRE(distinct(temps, step));
        case OP_MEMORY: REQUIRE(fj_memory_holds(step->memory, temps, step->others));
        case OP_TORCH_STATE: REQUIRE(fj_torch_state_holds(step->object, step->state));
        case OP_RELATION:
            REQUIRE(fj_relation_holds(step->relation, temps, step->others, step->uses));
        case OP_SHAPE: REQUIRE(relation_holds(step, temps));
        case OP_PYTHON: REQUIRE(call_is_true(step->object, &OF, 1));
        case OP_EXACTLY_LEFT: REQUIRE(fj_remaining(OF) == step->number);
        case OP_AT_LEAST_LEFT: REQUIRE(fj_remaining(OF) >= step->number);
        case OP_COUNT: goto failed;
        }
    }
    *owned = held;
    return PASSED;
failed:
    *owned = held;
    if (PyErr_Occurred())
        PyErr_Clear();
    return index;
}

static PyObject *
lift(Program *program, PyObject *const *temps)
{
    PyObject *objects = PyTuple_New(program->lifts);
    for (Py_ssize_t i = 0; objects && i < program->lifts; i++)
        PyTuple_SET_ITEM(objects, i, Py_NewRef(temps[program->lifted[i]]));
    return objects;
}

enum { SMALL = 96 };

/* The memory of one run: temps, and references to drop at its end. `temps` has room for the fresh
 * ones only, until `all` holds them. */
typedef struct {
    PyObject **temps, **owns;
    Py_ssize_t owned;
    PyObject **all;
} Run;

static Py_ssize_t
run_on(Program *program, Frame frame, Run *run, Py_ssize_t from, Py_ssize_t to)
{
    return fj_run_steps(program, frame, run->temps, run->owns, &run->owned, from, to);
}

static Py_ssize_t
lift_into(Program *program, PyObject *const *temps, PyObject **lifted)
{
    if (lifted == NULL || program->lifts == 0 || (*lifted = lift(program, temps)) != NULL)
        return PASSED;
    PyErr_Clear();
    return program->count;
}

/* Runs the steps after the stable ones, on temps that the stable ones have filled. */
static Py_ssize_t
run_rest(Program *program, Frame frame, Run *run, PyObject **temps, PyObject **lifted)
{
    for (const Alike *alike = program->alike, *end = alike + program->alike_count; alike < end;
         alike++) {
        Py_ssize_t matching =
            fj_tensors_match(alike->facts, program->held_temps + alike->first, temps, alike->count);
        if (matching < alike->count)
            return program->held + alike->first + matching;
    }
    Py_ssize_t failed =
        fj_run_steps(program, frame, temps, run->owns, &run->owned, program->last, program->count);
    return failed == PASSED ? lift_into(program, temps, lifted) : failed;
}

/* The same, on the temps of a valid snapshot. */
static Py_ssize_t
run_on_snapshot(Program *program, fj_snapshot *snapshot, Frame frame, Run *run, PyObject **lifted)
{
    PyObject **temps = fj_snapshot_temps(snapshot);
    memcpy(temps, run->temps, program->fresh * sizeof *temps);
    for (Py_ssize_t i = 0; i < program->keeps; i++) /* Python may run, and free the container */
        run->owns[run->owned++] = Py_NewRef(temps[program->kept[i]]);
    return run_rest(program, frame, run, temps, lifted);
}

/* With a snapshot, the temps of the stable steps are its own; without one they need memory. */
static int
with_all_temps(const Program *program, Run *run)
{
    if ((run->all = PyMem_New(PyObject *, program->temps)) == NULL)
        return 0;
    memcpy(run->all, run->temps, program->fresh * sizeof *run->all);
    run->temps = run->all;
    return 1;
}

static Py_ssize_t
run_all(Program *program, Frame frame, Run *run, PyObject **lifted)
{
    Py_ssize_t failed = run_on(program, frame, run, 0, program->stable);
    if (failed != PASSED)
        return failed;
    if (program->stable < program->held) {
        fj_snapshot *snapshot = fj_find_snapshot(program, frame, run->temps);
        if (snapshot) {
            failed = run_on_snapshot(program, snapshot, frame, run, lifted);
            fj_release_snapshot(program, snapshot);
            return failed;
        }
        if (!with_all_temps(program, run))
            return program->stable;
        failed = run_on(program, frame, run, program->stable, program->held);
        if (failed != PASSED)
            return failed;
        fj_take_snapshot(program, run->temps);
    }
    return run_rest(program, frame, run, run->temps, lifted);
}

/* As fj_run_steps for all of them; on success *lifted, where it is asked for and there is something
 * to lift, is a new tuple. */
static Py_ssize_t
evaluate(Program *program, Frame frame, PyObject **lifted)
{
    PyObject *small[SMALL], **places = small;
    if (lifted)
        *lifted = NULL;
    if (program->steps == NULL)
        return 0;
    if (program->fresh + program->owned > SMALL)
        places = PyMem_New(PyObject *, program->fresh + program->owned);
    if (places == NULL)
        return 0;
    Py_INCREF(
        program); /* a check may run Python, which may free the cache that holds the program */
    Run run = {places, places + program->fresh, 0, NULL};
    Py_ssize_t failed = run_all(program, frame, &run, lifted);
    while (run.owned)
        Py_DECREF(run.owns[--run.owned]);
    PyMem_Free(run.all);
    if (places != small)
        PyMem_Free(places);
    Py_DECREF(program);
    return failed;
}

/* ---- building ---- */

static int
op_named(const char *name)
{
    for (int op = 0; op < OP_COUNT; op++)
        if (strcmp(op_names[op], name) == 0)
            return op;
    PyErr_Format(PyExc_ValueError, "no operation %s", name);
    return -1;
}

static int
read_temps(PyObject *from, uint16_t *into, Py_ssize_t temps)
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
        return read_temps(uses, step->others, temps);
    default: return 0;
    }
}

static int
makes_reference(const Step *step)
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

static int
read_step(PyObject *from, Step *step, Py_ssize_t temps)
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
    if (PyTuple_GET_SIZE(uses) == 1 && read_temps(uses, &step->src, temps) < 0)
        return -1;
    return fill_payload(step, uses, temps);
}

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
        if (read_step(PyTuple_GET_ITEM(steps, i), &self->steps[i], temps) < 0) {
            Py_DECREF(self);
            return NULL;
        }
        self->owned += makes_reference(&self->steps[i]);
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
    if (read_temps(lifted, self->lifted, temps) < 0 ||
        (anchors && read_temps(anchors, self->anchors, temps) < 0)) {
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

static void
free_payload(Step *step)
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
    for (Py_ssize_t i = 0; i < count; i++) {
        free_payload(&steps[i]);
        Py_CLEAR(steps[i].object);
    }
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

/* ---- Python's view ---- */

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
        slots[i] = slot == unbound ? NULL : slot;
    }
    Py_ssize_t failed = evaluate(self, (Frame){slots, count, args[1]}, lifted);
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

static PyTypeObject Program_type = {
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

/* ---- the functions of guard_api.h ---- */

static int
api_run(PyObject *program, PyObject *const *slots, Py_ssize_t nslots, PyObject *function,
        PyObject **lifted)
{
    return evaluate((Program *)program, (Frame){slots, nslots, function}, lifted) == PASSED;
}

static framejit_guard_api api = {.program_type = &Program_type, .run = api_run};

static struct PyModuleDef module_def = {PyModuleDef_HEAD_INIT, "_guards", "The guard evaluator.",
                                        -1};

static PyTypeObject *
import_deque(void)
{
    PyObject *module = PyImport_ImportModule("collections");
    PyObject *type = module ? PyObject_GetAttrString(module, "deque") : NULL;
    Py_XDECREF(module);
    return (PyTypeObject *)type;
}

PyMODINIT_FUNC
PyInit__guards(void)
{
    if (PyType_Ready(&Program_type) < 0 || (deque = import_deque()) == NULL || fj_watch_init() < 0)
        return NULL;
    PyObject *module = PyModule_Create(&module_def);
    if (module == NULL)
        return NULL;
    unbound = PyObject_CallNoArgs((PyObject *)&PyBaseObject_Type);
    PyObject *capsule = PyCapsule_New(&api, FRAMEJIT_GUARD_CAPSULE, NULL);
    if (PyModule_AddFunctions(module, fj_tensor_methods) < 0 ||
        PyModule_AddFunctions(module, fj_state_methods) < 0 ||
        PyModule_AddFunctions(module, fj_watch_methods) < 0 ||
        PyModule_AddFunctions(module, fj_iterator_methods) < 0 ||
        PyModule_AddObjectRef(module, "Program", (PyObject *)&Program_type) < 0 ||
        PyModule_AddObjectRef(module, "UNBOUND", unbound) < 0 ||
        PyModule_AddObjectRef(module, "api", capsule) < 0)
        Py_CLEAR(module);
    Py_XDECREF(capsule);
    return module;
}
