/* Makes a snapshot: which record each stable step belongs to, and which words show that nothing has
 * changed. */
#include <stddef.h>

#include "change_detection.h"
#include "snapshot_data.h"

const uint64_t fj_never;

typedef struct {
    Program *program;
    fj_snapshot *snapshot;
    int32_t *found_by; /* the stable step that loaded a temp, -1 for none */
    int32_t *loader;   /* the record which that step belongs to, -1 for none */
    /* open addressing, `mask` + 1 entries: what already has a record or a word */
    struct Known *known;
    size_t mask;
    int failed;
} Builder;

/* What a record or a word describes; several paths may lead to one object or pointer. */
typedef enum { INSTANCE, CLASS, CONTAINER, POINTER } Aspect;

typedef struct Known {
    const void *at;
    Aspect aspect;
    int32_t record; /* -1: none yet */
} Known;

/* The table entry for it, new if there is none. The table is large enough: a step adds a few
 * entries at most. */
static Known *
find_known(Builder *builder, const void *at, Aspect aspect)
{
    size_t slot = (((uintptr_t)at >> 3) * 0x9E3779B97F4A7C15u >> 20) & builder->mask;
    while (builder->known[slot].at &&
           (builder->known[slot].at != at || builder->known[slot].aspect != aspect))
        slot = (slot + 1) & builder->mask;
    Known *known = &builder->known[slot];
    if (known->at == NULL)
        *known = (Known){at, aspect, -1};
    return known;
}

static int
known_init(Builder *builder, Py_ssize_t steps)
{
    size_t size = 64;
    while (size < 8 * (size_t)steps)
        size *= 2;
    builder->mask = size - 1;
    return (builder->known = PyMem_Calloc(size, sizeof *builder->known)) != NULL;
}

static void
append(Builder *builder, Words *words, Word word)
{
    if (words->count == words->capacity) {
        Py_ssize_t capacity = words->capacity ? 2 * words->capacity : 16;
        Word *more = PyMem_Resize(words->words, Word, capacity);
        if (more == NULL) {
            builder->failed = 1;
            return;
        }
        words->words = more;
        words->capacity = capacity;
    }
    words->words[words->count++] = word;
}

static void
add_word(Builder *builder, const void *at, uint64_t expected, int32_t record)
{
    append(builder, &builder->snapshot->all, (Word){at, expected, record, 0});
}

/* A word that is compared at every call. */
static void
add_both(Builder *builder, const void *at, uint64_t expected, int32_t record)
{
    append(builder, &builder->snapshot->all, (Word){at, expected, record, 1});
    append(builder, &builder->snapshot->quick, (Word){at, expected, record, 1});
}

/* A pointer in an object: no event says that it points to something else. */
static void
add_pointer(Builder *builder, const void *pointer)
{
    Known *known = find_known(builder, pointer, POINTER);
    if (known->record >= 0)
        return;
    known->record = 0;
    add_both(builder, pointer, read_word(pointer), -1);
}

static int32_t
add_record(Builder *builder)
{
    fj_snapshot *snapshot = builder->snapshot;
    if (snapshot->record_count == snapshot->record_capacity) {
        Py_ssize_t capacity = snapshot->record_capacity ? 2 * snapshot->record_capacity : 16;
        Record **more = PyMem_Resize(snapshot->records, Record *, capacity);
        if (more == NULL)
            return builder->failed = 1, -1;
        snapshot->records = more;
        snapshot->record_capacity = capacity;
    }
    Record *record = PyMem_Calloc(1, sizeof *record);
    if (record == NULL)
        return builder->failed = 1, -1;
    record->first = record->final = -1;
    snapshot->records[snapshot->record_count] = record;
    return (int32_t)snapshot->record_count++;
}

/* Adds a word that never matches, so that the steps of the record run at every call. */
static void
rerun_at_every_call(Builder *builder, int32_t record)
{
    add_both(builder, &fj_never, 1, record);
}

static void
detect_dict_changes(Builder *builder, int32_t number, PyObject *dict, int of_instance)
{
    Record *record = builder->snapshot->records[number];
    switch (fj_detection_for_dict(dict, of_instance)) {
    case BY_EVENT:
        if ((record->watch = PyMem_Calloc(1, sizeof *record->watch)) == NULL) {
            builder->failed = 1;
            return;
        }
        record->watch->dict = dict; /* watched once all keys are collected, see begin_watching */
        add_word(builder, &record->changed, 0, number);
        return;
    case BY_VERSION: {
        const uint64_t *version = &((PyDictObject *)dict)->ma_version_tag;
        add_both(builder, version, read_word(version), number);
        return;
    }
    case BY_VALUE: rerun_at_every_call(builder, number); return;
    }
}

/* ---- which record a step belongs to ---- */

static int32_t
record_of_object(Builder *builder, uint16_t temp)
{
    PyObject *object = builder->snapshot->temps[temp], **place;
    int32_t *known = &find_known(builder, object, INSTANCE)->record;
    if (*known >= 0)
        return *known;
    place = fj_dict_place(object);
    if ((*known = add_record(builder)) < 0)
        return -1;
    if (place == NULL) {
        rerun_at_every_call(builder, *known);
    }
    else {
        if (!PyModule_CheckExact(object))
            add_pointer(builder, place);
        detect_dict_changes(builder, *known, *place, 1);
    }
    return *known;
}

static int32_t
record_of_class(Builder *builder, uint16_t temp)
{
    PyObject *type = builder->snapshot->temps[temp];
    int32_t *known = &find_known(builder, type, CLASS)->record;
    if (*known >= 0)
        return *known;
    if ((*known = add_record(builder)) < 0)
        return -1;
    if (!fj_detects_class_changes() || !PyType_Check(type) ||
        !fj_type_version((PyTypeObject *)type)) {
        rerun_at_every_call(builder, *known);
    }
    else {
        /* the version is 32 bits, followed by 32 of padding that are never written */
        Py_BUILD_ASSERT(
            offsetof(PyTypeObject, tp_finalize) - offsetof(PyTypeObject, tp_version_tag) == 8);
        builder->snapshot->records[*known]->type = (PyTypeObject *)type;
        add_both(builder, &((PyTypeObject *)type)->tp_version_tag,
                 read_word(&((PyTypeObject *)type)->tp_version_tag), *known);
    }
    return *known;
}

static int
is_immutable(PyObject *container)
{
    return PyTuple_Check(container) || PyUnicode_Check(container) || PyBytes_Check(container) ||
           PyFrozenSet_Check(container) || PyRange_Check(container) || container == Py_None;
}

/* What an immutable container holds is looked at again with what it was found in: by then it may be
 * another one at the same address. */
static int32_t
record_of_container(Builder *builder, uint16_t temp, int in_order)
{
    int32_t by = builder->found_by[temp];
    if (by >= 0 && builder->program->steps[by].op == OP_CLASS_DICT)
        return record_of_class(builder, builder->program->steps[by].src);
    PyObject *container = builder->snapshot->temps[temp];
    if (is_immutable(container) && builder->loader[temp] >= 0)
        return builder->loader[temp];
    int32_t *known = &find_known(builder, container, CONTAINER)->record;
    if (*known < 0) {
        if ((*known = add_record(builder)) < 0)
            return -1;
        if (PyDict_Check(container))
            detect_dict_changes(builder, *known, container, 0);
        else
            rerun_at_every_call(builder, *known);
    }
    /* move_to_end() of an OrderedDict raises no event. */
    if (in_order && PyODict_Check(container))
        rerun_at_every_call(builder, *known);
    return *known;
}

static void
add_to_record(Builder *builder, int32_t number, Py_ssize_t index)
{
    if (number < 0)
        return;
    fj_snapshot *snapshot = builder->snapshot;
    const Step *step = &builder->program->steps[index];
    if (step->op < OP_TYPE)
        builder->loader[step->dst] = number;
    Record *record = snapshot->records[number];
    int32_t at = (int32_t)(index - builder->program->stable);
    snapshot->next_step[at] = -1;
    if (record->first < 0)
        record->first = at;
    else
        snapshot->next_step[record->final] = at;
    record->final = at;
}

static void
pin(Builder *builder, PyObject *constant)
{
    fj_snapshot *snapshot = builder->snapshot;
    snapshot->pins[snapshot->pin_count++] = Py_NewRef(constant);
}

/* Most objects of Python classes accept another class by assignment; others keep theirs. */
static void
watch_type(Builder *builder, Py_ssize_t index)
{
    uint16_t temp = builder->program->steps[index].src;
    PyObject *object = builder->snapshot->temps[temp];
    const unsigned long flags = Py_TYPE(object)->tp_flags;
    int fixed = (!(flags & Py_TPFLAGS_HEAPTYPE) || (flags & Py_TPFLAGS_IMMUTABLETYPE)) &&
                !PyModule_Check(object);
    if (fixed && builder->loader[temp] >= 0)
        add_to_record(builder, builder->loader[temp], index);
    else
        add_pointer(builder, &object->ob_type);
}

/* What is read off a tuple that was not found in a container: a function's defaults or closure.
 * Another tuple may lie at its address by the next call, so that what it holds is compared. */
static void
watch_tuple(Builder *builder, PyObject *tuple, const Step *step)
{
    Py_ssize_t number = step->number, size = PyTuple_GET_SIZE(tuple);
    add_pointer(builder, &((PyVarObject *)tuple)->ob_size);
    if (step->op == OP_SEQUENCE_ITEM)
        add_pointer(builder, &PyTuple_GET_ITEM(tuple, number < 0 ? number + size : number));
}

static void
watch_step(Builder *builder, Py_ssize_t index)
{
    const Step *step = &builder->program->steps[index];
    PyObject *of = builder->snapshot->temps[step->src];
    if ((step->op == OP_SEQUENCE_ITEM || step->op == OP_LENGTH) && PyTuple_Check(of) &&
        builder->loader[step->src] < 0) {
        watch_tuple(builder, of, step);
        if (step->op == OP_SEQUENCE_ITEM)
            builder->found_by[step->dst] = (int32_t)index;
        return;
    }
    switch ((Op)step->op) {
    case OP_INSTANCE_ITEM:
    case OP_INSTANCE_ABSENT:
    case OP_INSTANCE_PRESENT:
    case OP_INSTANCE_LENGTH:
    case OP_INSTANCE_KEYS:
        add_to_record(builder, record_of_object(builder, step->src), index);
        break;
    case OP_DICT_ITEM:
    case OP_ABSENT:
    case OP_PRESENT:
    case OP_LENGTH:
    case OP_SEQUENCE_ITEM:
        add_to_record(builder, record_of_container(builder, step->src, 0), index);
        break;
    case OP_KEYS: add_to_record(builder, record_of_container(builder, step->src, 1), index); break;
    case OP_CLASS_DICT:
    case OP_CLASS_ATTRIBUTE:
    case OP_MRO_ITEM: add_to_record(builder, record_of_class(builder, step->src), index); break;
    case OP_TYPE:
    case OP_TYPE_OF: watch_type(builder, index); break;
    case OP_FUNCTION_FIELD: add_pointer(builder, fj_function_field(of, step->number)); break;
    case OP_PROPERTY_FIELD:
        add_pointer(builder, fj_property_field(of, step->number));
        break; /* property.__init__ may be called again */
    case OP_CELL: add_pointer(builder, &((PyCellObject *)of)->ob_ref); break;
    case OP_EQUALS: pin(builder, of); break;
    default: break; /* cannot change while the objects are the same */
    }
    if (step->op < OP_TYPE)
        builder->found_by[step->dst] = (int32_t)index;
}

/* Starts the watcher, now that all keys are known that the steps look up. */
static void
begin_watching(Builder *builder, Record *record)
{
    fj_watch *watch = record->watch;
    fj_snapshot *snapshot = builder->snapshot;
    Py_ssize_t count = 0;
    for (int32_t at = record->first; at >= 0; at = snapshot->next_step[at])
        count++;
    watch->keys = PyMem_New(PyObject *, count + 1);
    watch->changed = &record->changed;
    watch->owner_changed = &snapshot->changed;
    PyObject *dict = watch->dict;
    watch->dict = NULL;
    if (watch->keys == NULL) {
        builder->failed = 1;
        return;
    }
    for (int32_t at = record->first; at >= 0; at = snapshot->next_step[at]) {
        const Step *step = &builder->program->steps[builder->program->stable + at];
        if (step->op == OP_SEQUENCE_ITEM || step->op == OP_TYPE || step->op == OP_TYPE_OF)
            continue; /* of an item, not of the dictionary */
        int of_key = step->op != OP_LENGTH && step->op != OP_KEYS &&
                     step->op != OP_INSTANCE_LENGTH && step->op != OP_INSTANCE_KEYS;
        if (of_key && PyUnicode_CheckExact(step->object) && PyUnicode_CHECK_INTERNED(step->object))
            watch->keys[watch->key_count++] = step->object;
        else
            watch->any_key = 1;
    }
    if (fj_watch_begin(watch, dict) < 0)
        builder->failed = 1;
}

static int32_t *
numbers(Py_ssize_t count)
{
    int32_t *made = PyMem_New(int32_t, count + 1);
    for (Py_ssize_t i = 0; made && i < count; i++)
        made[i] = -1;
    return made;
}

static void
make(Builder *builder)
{
    Program *program = builder->program;
    fj_snapshot *snapshot = builder->snapshot;
    for (Py_ssize_t i = program->stable; i < program->held && !builder->failed; i++)
        watch_step(builder, i);
    for (Py_ssize_t i = 0; i < snapshot->record_count && !builder->failed; i++)
        if (snapshot->records[i]->watch)
            begin_watching(builder, snapshot->records[i]);
}

int
fj_build_snapshot(Program *program, fj_snapshot *snapshot)
{
    Py_ssize_t steps = program->held - program->stable;
    snapshot->next_step = numbers(steps);
    snapshot->pins = PyMem_New(PyObject *, steps + 1);
    Builder builder = {.program = program,
                       .snapshot = snapshot,
                       .found_by = numbers(program->temps),
                       .loader = numbers(program->temps)};
    builder.failed = !(snapshot->next_step && snapshot->pins && builder.found_by &&
                       builder.loader && known_init(&builder, steps));
    if (!builder.failed)
        make(&builder);
    PyMem_Free(builder.known);
    PyMem_Free(builder.found_by);
    PyMem_Free(builder.loader);
    return builder.failed ? -1 : 0;
}
