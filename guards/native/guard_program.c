/* The guard evaluator: a Program is a flat array of loads and checks over numbered temps, run by
 * one switch.
 *
 * In: steps that program_builder.c has read. What a check means is defined in Python by its kind
 * (guards/kinds/), what a load means by its source (guards/source/). Temps are borrowed references.
 * A load that makes a new object, or whose object Python code could drop before its last use
 * (`keep`), also goes on the list of owned references, which are dropped at the end. */
#include "program.h"

#include "checks.h"
#include "loads.h"
#include "snapshot.h"

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

Py_ssize_t
fj_evaluate(Program *program, Frame frame, PyObject **lifted)
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
