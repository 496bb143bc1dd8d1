/* See arming.h. */
#include "arming.h"

#include <stddef.h>

#include "dict_watch.h"
#include "reassigned.h"

/* ---- how dictionaries are watched ------------------------------------------------------------------------------- */

typedef enum { BY_VALUE, BY_VERSION, BY_EVENT } Way;

static Way way;
/* 3.13.0 stores attributes into an object without an event or a new version of its dictionary; probed by watching.py. */
static int blind_for_attributes = 1;

int fj_watch_init(void) {
    way = fj_has_watchers() ? BY_EVENT : BY_VERSION;
    return 0;
}

static Way way_for(PyObject *dict, int of_instance) {
    return of_instance && blind_for_attributes && ((PyDictObject *)dict)->ma_values ? BY_VALUE : way;
}

/* ---- what an arming is made of ---------------------------------------------------------------------------------- */

/* A container and the steps that looked into it. */
typedef struct {
    int32_t first, final; /* a list through Arming.next, by index among the stable steps */
    uint64_t changed;
    int tells; /* of anything else put into the container, even at the same address */
    PyTypeObject *type; /* borrowed, of a class's record */
    fj_watch *watch;
} Record;

/* A word in memory that stays as it is while nothing changes. */
typedef struct {
    const void *at;
    uint64_t expected;
    int32_t record; /* to be looked at again if it differs; -1: then all is */
    int32_t is_quick;
} Word;

typedef struct {
    Word *words;
    Py_ssize_t count, capacity;
} Words;

struct fj_arming {
    fj_arming *next;
    uint64_t changed;    /* some watched dictionary is */
    uint64_t reassigned; /* when all words were compared last, see reassigned.h */
    int busy, dropped;
    Words all, quick; /* parents before their children; the quick ones are those that no event and no count tells of */
    Record **records;
    Py_ssize_t record_count, record_capacity;
    int32_t *next_step;
    PyObject **pins; /* strong: constants that were compared by value, so that no other can take their address */
    Py_ssize_t pin_count;
    PyObject *temps[];
};

enum { MANY = 64, FEW = 16 };

static const uint64_t zero;

static inline uint64_t read_word(const void *at) {
    uint64_t word;
    memcpy(&word, at, sizeof word);
    return word;
}

PyObject **fj_arming_temps(fj_arming *arming) { return arming->temps; }

/* ---- making one ------------------------------------------------------------------------------------------------- */

typedef struct {
    Program *program;
    fj_arming *arming;
    int32_t *found_by;                 /* the stable step that loaded a temp, -1 for none */
    int32_t *loader;                   /* the record which that step belongs to, -1 for none */
    struct Known *known; /* a table of what there is a record or a word of already, open addressing, `mask` + 1 places */
    size_t mask;
    int failed;
} Maker;

/* What a record or a word is of: one object, or one place in memory, may be reached by several paths. */
/* The last ones are of a class, in the order of fj_reassignment: whether it counts. */
typedef enum { INSTANCE, CLASS, CONTAINER, PLACE, ITS_DICTS, ITS_CLASSES, ITS_PARTS } Aspect;

typedef struct Known {
    const void *at;
    Aspect aspect;
    int32_t record; /* -1: none yet */
} Known;

/* Where its record is noted. There is always room: a step asks for few. */
static Known *known_of(Maker *maker, const void *at, Aspect aspect) {
    size_t place = (((uintptr_t)at >> 3) * 0x9E3779B97F4A7C15u >> 20) & maker->mask;
    while (maker->known[place].at && (maker->known[place].at != at || maker->known[place].aspect != aspect))
        place = (place + 1) & maker->mask;
    Known *known = &maker->known[place];
    if (known->at == NULL) *known = (Known){at, aspect, -1};
    return known;
}

static int known_init(Maker *maker, Py_ssize_t steps) {
    size_t size = 64;
    while (size < 8 * (size_t)steps) size *= 2;
    maker->mask = size - 1;
    return (maker->known = PyMem_Calloc(size, sizeof *maker->known)) != NULL;
}

static void append(Maker *maker, Words *words, Word word) {
    if (words->count == words->capacity) {
        Py_ssize_t capacity = words->capacity ? 2 * words->capacity : 16;
        Word *more = PyMem_Resize(words->words, Word, capacity);
        if (more == NULL) {
            maker->failed = 1;
            return;
        }
        words->words = more;
        words->capacity = capacity;
    }
    words->words[words->count++] = word;
}

static void add_word(Maker *maker, const void *at, uint64_t expected, int32_t record) {
    append(maker, &maker->arming->all, (Word){at, expected, record, 0});
}

static int class_counts(Maker *maker, PyTypeObject *type, fj_reassignment what) {
    Known *known = known_of(maker, type, ITS_DICTS + what);
    if (known->record < 0) known->record = fj_counts(type, what);
    return known->record;
}

/* Was it found where nothing else can be put unseen, not even a new object at its address? */
static int is_told_of(Maker *maker, uint16_t temp) {
    int32_t by = maker->found_by[temp], record = maker->loader[temp];
    if (record >= 0) return maker->arming->records[record]->tells;
    if (by < 0) return 0;
    const Step *step = &maker->program->steps[by];
    switch ((Op)step->op) {
    case OP_CONSTANT: return 1;
    case OP_SEQUENCE_ITEM: return is_told_of(maker, step->src); /* of a tuple, see watch_tuple */
    case OP_FUNCTION_FIELD: return class_counts(maker, &PyFunction_Type, FJ_FUNCTION) && is_told_of(maker, step->src);
    default: return 0;
    }
}

/* One that has to be compared at every call. */
static void add_both(Maker *maker, const void *at, uint64_t expected, int32_t record) {
    append(maker, &maker->arming->all, (Word){at, expected, record, 1});
    append(maker, &maker->arming->quick, (Word){at, expected, record, 1});
}

/* What a pointer points to; `seldom`: compared only when something changed. */
static void add_pointer(Maker *maker, const void *place, int seldom) {
    Known *known = known_of(maker, place, PLACE);
    if (known->record >= 0) return;
    known->record = 0;
    if (seldom) add_word(maker, place, read_word(place), -1);
    else add_both(maker, place, read_word(place), -1);
}

/* Of what a setter puts there which counts, in an object that is sure to be the same one. */
static void add_assigned(Maker *maker, uint16_t temp, const void *place, fj_reassignment what) {
    add_pointer(maker, place, is_told_of(maker, temp) && class_counts(maker, Py_TYPE(maker->arming->temps[temp]), what));
}

static int32_t add_record(Maker *maker) {
    fj_arming *arming = maker->arming;
    if (arming->record_count == arming->record_capacity) {
        Py_ssize_t capacity = arming->record_capacity ? 2 * arming->record_capacity : 16;
        Record **more = PyMem_Resize(arming->records, Record *, capacity);
        if (more == NULL) return maker->failed = 1, -1;
        arming->records = more;
        arming->record_capacity = capacity;
    }
    Record *record = PyMem_Calloc(1, sizeof *record);
    if (record == NULL) return maker->failed = 1, -1;
    record->first = record->final = -1;
    arming->records[arming->record_count] = record;
    return (int32_t)arming->record_count++;
}

/* The words that make its steps run at every call. */
static void tell_by_value(Maker *maker, int32_t record) { add_both(maker, &zero, 1, record); }

static void tell_of_dict(Maker *maker, int32_t number, PyObject *dict, int of_instance) {
    Record *record = maker->arming->records[number];
    switch (way_for(dict, of_instance)) {
    case BY_EVENT:
        if ((record->watch = PyMem_Calloc(1, sizeof *record->watch)) == NULL) {
            maker->failed = 1;
            return;
        }
        record->watch->dict = dict; /* to be watched when the keys are known */
        record->tells = 1;
        add_word(maker, &record->changed, 0, number);
        return;
    case BY_VERSION: {
        const uint64_t *version = &((PyDictObject *)dict)->ma_version_tag;
        add_both(maker, version, read_word(version), number);
        record->tells = 1;
        return;
    }
    case BY_VALUE: tell_by_value(maker, number); return;
    }
}

/* ---- which record a step belongs to ----------------------------------------------------------------------------- */

static int32_t record_of_object(Maker *maker, uint16_t temp) {
    PyObject *object = maker->arming->temps[temp], **place;
    int32_t *known = &known_of(maker, object, INSTANCE)->record;
    if (*known >= 0) return *known;
    place = fj_dict_place(object);
    if ((*known = add_record(maker)) < 0) return -1;
    if (place == NULL) {
        tell_by_value(maker, *known);
    } else {
        if (!PyModule_CheckExact(object)) add_assigned(maker, temp, place, FJ_DICT);
        tell_of_dict(maker, *known, *place, 1);
    }
    return *known;
}

static int32_t record_of_class(Maker *maker, uint16_t temp) {
    PyObject *type = maker->arming->temps[temp];
    int32_t *known = &known_of(maker, type, CLASS)->record;
    if (*known >= 0) return *known;
    if ((*known = add_record(maker)) < 0) return -1;
    if (way == BY_VALUE || !PyType_Check(type) || !fj_type_version((PyTypeObject *)type)) {
        tell_by_value(maker, *known);
    } else {
        /* 32 bits, and 32 of padding that nobody writes */
        Py_BUILD_ASSERT(offsetof(PyTypeObject, tp_finalize) - offsetof(PyTypeObject, tp_version_tag) == 8);
        maker->arming->records[*known]->type = (PyTypeObject *)type;
        maker->arming->records[*known]->tells = 1;
        add_both(maker, &((PyTypeObject *)type)->tp_version_tag, read_word(&((PyTypeObject *)type)->tp_version_tag), *known);
    }
    return *known;
}

static int is_immutable(PyObject *container) {
    return PyTuple_Check(container) || PyUnicode_Check(container) || PyBytes_Check(container) || PyFrozenSet_Check(container) ||
           PyRange_Check(container) || container == Py_None;
}

/* What an immutable container holds is looked at again with what it was found in: by then it may be another one at the
 * same address. */
static int32_t record_of_container(Maker *maker, uint16_t temp, int in_order) {
    int32_t by = maker->found_by[temp];
    if (by >= 0 && maker->program->steps[by].op == OP_CLASS_DICT) return record_of_class(maker, maker->program->steps[by].src);
    PyObject *container = maker->arming->temps[temp];
    if (is_immutable(container) && maker->loader[temp] >= 0) return maker->loader[temp];
    int32_t *known = &known_of(maker, container, CONTAINER)->record;
    if (*known < 0) {
        if ((*known = add_record(maker)) < 0) return -1;
        if (PyDict_Check(container)) tell_of_dict(maker, *known, container, 0);
        else tell_by_value(maker, *known);
    }
    /* An OrderedDict can be put in another order without any event. */
    if (in_order && PyODict_Check(container)) tell_by_value(maker, *known);
    return *known;
}

static void add_to_record(Maker *maker, int32_t number, Py_ssize_t index) {
    if (number < 0) return;
    fj_arming *arming = maker->arming;
    const Step *step = &maker->program->steps[index];
    if (step->op < OP_TYPE) maker->loader[step->dst] = number;
    Record *record = arming->records[number];
    int32_t at = (int32_t)(index - maker->program->stable);
    arming->next_step[at] = -1;
    if (record->first < 0) record->first = at;
    else arming->next_step[record->final] = at;
    record->final = at;
}

static void pin(Maker *maker, PyObject *constant) {
    fj_arming *arming = maker->arming;
    arming->pins[arming->pin_count++] = Py_NewRef(constant);
}

/* Objects of most classes written in Python can be given another class; others keep theirs while they live. */
static void watch_type(Maker *maker, Py_ssize_t index) {
    uint16_t temp = maker->program->steps[index].src;
    PyObject *object = maker->arming->temps[temp];
    const unsigned long flags = Py_TYPE(object)->tp_flags;
    int fixed = (!(flags & Py_TPFLAGS_HEAPTYPE) || (flags & Py_TPFLAGS_IMMUTABLETYPE)) && !PyModule_Check(object);
    if (fixed && maker->loader[temp] >= 0) add_to_record(maker, maker->loader[temp], index);
    else add_assigned(maker, temp, &object->ob_type, FJ_CLASS);
}

/* What is read off a tuple that was not found in a container: a function's defaults or closure. Another tuple may lie at its
 * address by the next call, so that what it holds is compared. */
static void watch_tuple(Maker *maker, PyObject *tuple, const Step *step) {
    Py_ssize_t number = step->number, size = PyTuple_GET_SIZE(tuple);
    int told = is_told_of(maker, step->src);
    add_pointer(maker, &((PyVarObject *)tuple)->ob_size, told);
    if (step->op == OP_SEQUENCE_ITEM) add_pointer(maker, &PyTuple_GET_ITEM(tuple, number < 0 ? number + size : number), told);
}

static void watch_step(Maker *maker, Py_ssize_t index) {
    const Step *step = &maker->program->steps[index];
    PyObject *of = maker->arming->temps[step->src];
    if ((step->op == OP_SEQUENCE_ITEM || step->op == OP_LENGTH) && PyTuple_Check(of) && maker->loader[step->src] < 0) {
        watch_tuple(maker, of, step);
        if (step->op == OP_SEQUENCE_ITEM) maker->found_by[step->dst] = (int32_t)index;
        return;
    }
    switch ((Op)step->op) {
    case OP_INSTANCE_ITEM:
    case OP_INSTANCE_ABSENT:
    case OP_INSTANCE_PRESENT:
    case OP_INSTANCE_LENGTH:
    case OP_INSTANCE_KEYS: add_to_record(maker, record_of_object(maker, step->src), index); break;
    case OP_DICT_ITEM:
    case OP_ABSENT:
    case OP_PRESENT:
    case OP_LENGTH:
    case OP_SEQUENCE_ITEM: add_to_record(maker, record_of_container(maker, step->src, 0), index); break;
    case OP_KEYS: add_to_record(maker, record_of_container(maker, step->src, 1), index); break;
    case OP_CLASS_DICT:
    case OP_CLASS_ATTRIBUTE:
    case OP_MRO_ITEM: add_to_record(maker, record_of_class(maker, step->src), index); break;
    case OP_TYPE:
    case OP_TYPE_OF: watch_type(maker, index); break;
    case OP_FUNCTION_FIELD: add_assigned(maker, step->src, fj_function_field(of, step->number), FJ_FUNCTION); break;
    case OP_PROPERTY_FIELD: add_pointer(maker, fj_property_field(of, step->number), 0); break; /* __init__ can be called again */
    case OP_CELL: add_pointer(maker, &((PyCellObject *)of)->ob_ref, 0); break;
    case OP_EQUALS: pin(maker, of); break;
    default: break; /* says nothing that could change while the objects are the same */
    }
    if (step->op < OP_TYPE) maker->found_by[step->dst] = (int32_t)index;
}

/* Only now are the keys known that anybody looked for. */
static void begin_watching(Maker *maker, Record *record) {
    fj_watch *watch = record->watch;
    fj_arming *arming = maker->arming;
    Py_ssize_t count = 0;
    for (int32_t at = record->first; at >= 0; at = arming->next_step[at]) count++;
    watch->keys = PyMem_New(PyObject *, count + 1);
    watch->changed = &record->changed;
    watch->owner_changed = &arming->changed;
    PyObject *dict = watch->dict;
    watch->dict = NULL;
    if (watch->keys == NULL) {
        maker->failed = 1;
        return;
    }
    for (int32_t at = record->first; at >= 0; at = arming->next_step[at]) {
        const Step *step = &maker->program->steps[maker->program->stable + at];
        if (step->op == OP_SEQUENCE_ITEM || step->op == OP_TYPE || step->op == OP_TYPE_OF) continue; /* of what lies in it */
        int of_key = step->op != OP_LENGTH && step->op != OP_KEYS && step->op != OP_INSTANCE_LENGTH && step->op != OP_INSTANCE_KEYS;
        if (of_key && PyUnicode_CheckExact(step->object) && PyUnicode_CHECK_INTERNED(step->object))
            watch->keys[watch->key_count++] = step->object;
        else watch->any_key = 1;
    }
    if (fj_watch_begin(watch, dict) < 0) maker->failed = 1;
}

/* ---- ends ------------------------------------------------------------------------------------------------------- */

static void free_arming(fj_arming *arming) {
    for (Py_ssize_t i = 0; i < arming->record_count; i++) {
        Record *record = arming->records[i];
        if (record->watch) {
            fj_watch_end(record->watch);
            PyMem_Free(record->watch->keys);
            PyMem_Free(record->watch);
        }
        PyMem_Free(record);
    }
    PyMem_Free(arming->records);
    PyMem_Free(arming->all.words);
    PyMem_Free(arming->quick.words);
    PyMem_Free(arming->next_step);
    while (arming->pin_count) Py_DECREF(arming->pins[--arming->pin_count]);
    PyMem_Free(arming->pins);
    PyMem_Free(arming);
}

/* Out of the list it is already. */
static void drop(fj_arming *arming) {
    if (arming->busy) arming->dropped = 1;
    else free_arming(arming);
}

void fj_armings_drop(Program *program) {
    fj_arming *arming = program->armings;
    program->armings = NULL;
    program->arming_count = 0;
    while (arming) {
        fj_arming *next = arming->next;
        drop(arming);
        arming = next;
    }
}

int fj_armings_traverse(Program *program, visitproc visit, void *arg) {
    for (fj_arming *arming = program->armings; arming; arming = arming->next)
        for (Py_ssize_t i = 0; i < arming->pin_count; i++) Py_VISIT(arming->pins[i]);
    return 0;
}

/* ---- arming ----------------------------------------------------------------------------------------------------- */

/* Not where it does not pay: anchors that are others at every call, state that changes at every call. Now and then it is
 * tried again. */
static int worth_arming(const Program *program) {
    return program->arms < FEW || program->reuses >= program->arms || (program->arms + program->passed) % MANY == 0;
}

static void drop_oldest(Program *program) {
    fj_arming **place = &program->armings;
    while ((*place)->next) place = &(*place)->next;
    fj_arming *oldest = *place;
    *place = NULL;
    program->arming_count--;
    drop(oldest);
}

static int32_t *numbers(Py_ssize_t count) {
    int32_t *made = PyMem_New(int32_t, count + 1);
    for (Py_ssize_t i = 0; made && i < count; i++) made[i] = -1;
    return made;
}

static void make(Maker *maker) {
    Program *program = maker->program;
    fj_arming *arming = maker->arming;
    for (Py_ssize_t i = program->stable; i < program->held && !maker->failed; i++) watch_step(maker, i);
    for (Py_ssize_t i = 0; i < arming->record_count && !maker->failed; i++)
        if (arming->records[i]->watch) begin_watching(maker, arming->records[i]);
    arming->reassigned = fj_reassigned();
}

void fj_arm(Program *program, PyObject *const *temps) {
    if (!worth_arming(program)) {
        program->passed++;
        return;
    }
    Py_ssize_t steps = program->held - program->stable;
    fj_arming *arming = PyMem_Calloc(1, sizeof *arming + program->temps * sizeof(PyObject *));
    if (arming == NULL) return;
    memcpy(arming->temps, temps, program->temps * sizeof *temps);
    arming->next_step = numbers(steps);
    arming->pins = PyMem_New(PyObject *, steps + 1);
    Maker maker = {.program = program, .arming = arming, .found_by = numbers(program->temps), .loader = numbers(program->temps)};
    maker.failed = !(arming->next_step && arming->pins && maker.found_by && maker.loader && known_init(&maker, steps));
    if (!maker.failed) make(&maker);
    PyMem_Free(maker.known);
    PyMem_Free(maker.found_by);
    PyMem_Free(maker.loader);
    if (maker.failed) {
        free_arming(arming);
        return;
    }
    if (program->arming_count == MANY) drop_oldest(program);
    arming->next = program->armings;
    program->armings = arming;
    program->arming_count++;
    program->arms++;
}

/* ---- looking again ---------------------------------------------------------------------------------------------- */

/* Do the steps of a record find what they found before? */
static int steps_hold(Program *program, Frame frame, fj_arming *arming, const Record *record) {
    for (int32_t at = record->first; at >= 0; at = arming->next_step[at]) {
        Py_ssize_t index = program->stable + at, owned = 0;
        const Step *step = &program->steps[index];
        PyObject *before = arming->temps[step->dst], *own;
        if (fj_run_steps(program, frame, arming->temps, &own, &owned, index, index + 1) != PASSED) return 0;
        if (owned) Py_DECREF(own); /* the container holds it still */
        if (step->op < OP_TYPE && arming->temps[step->dst] != before) return 0;
    }
    return 1;
}

static int record_holds(Program *program, Frame frame, fj_arming *arming, Word *word) {
    if (word->record < 0) return 0;
    Record *record = arming->records[word->record];
    if (record->watch && record->watch->dict == NULL) return 0; /* it is gone */
    record->changed = 0;
    if (!steps_hold(program, frame, arming, record)) return 0;
    if (record->type && !fj_type_version(record->type)) return 0;
    if (word->at != &zero) word->expected = read_word(word->at);
    return 1;
}

/* All in their order: what a container holds may be gone once it changed. */
static int all_hold(Program *program, Frame frame, fj_arming *arming) {
    arming->changed = 0;
    arming->reassigned = fj_reassigned();
    Word *quick = arming->quick.words;
    for (Word *word = arming->all.words, *end = word + arming->all.count; word < end; word++) {
        if (read_word(word->at) != word->expected && !record_holds(program, frame, arming, word)) return 0;
        if (word->is_quick) *quick++ = *word;
    }
    return 1;
}

static int holds(Program *program, Frame frame, fj_arming *arming) {
    if (arming->changed || arming->reassigned != fj_reassigned()) return all_hold(program, frame, arming);
    for (Py_ssize_t i = 0; i < arming->quick.count; i++) {
        Word *word = &arming->quick.words[i];
        if (read_word(word->at) == word->expected) continue;
        if (word->at != &zero) return all_hold(program, frame, arming);
        if (!record_holds(program, frame, arming, word)) return 0;
    }
    return 1;
}

static int has_anchors(const Program *program, const fj_arming *arming, PyObject *const *temps) {
    for (Py_ssize_t i = 0; i < program->anchor_count; i++)
        if (arming->temps[program->anchors[i]] != temps[program->anchors[i]]) return 0;
    return 1;
}

fj_arming *fj_arming_find(Program *program, Frame frame, PyObject *const *temps) {
    fj_arming **place = &program->armings, *arming;
    while ((arming = *place) && (arming->busy || !has_anchors(program, arming, temps))) place = &arming->next;
    if (arming == NULL) return NULL;
    *place = arming->next;
    arming->busy = 1;
    memcpy(arming->temps, temps, program->fresh * sizeof *temps);
    int held = holds(program, frame, arming);
    if (!held) {
        program->arming_count--;
        arming->busy = 0;
        drop(arming);
        return NULL;
    }
    arming->next = program->armings;
    program->armings = arming;
    program->reuses++;
    return arming;
}

Py_ssize_t fj_arming_compared(const Program *program) { return program->armings ? program->armings->quick.count : 0; }

void fj_arming_leave(Program *program, fj_arming *arming) {
    (void)program;
    arming->busy = 0;
    if (arming->dropped) free_arming(arming);
}

/* ---- for watching.py -------------------------------------------------------------------------------------------- */

/* set_watching("values" | "versions" | "events" | None, blind for attributes): None for the best there is. */
static PyObject *set_watching(PyObject *module, PyObject *args) {
    const char *name;
    int blind;
    if (!PyArg_ParseTuple(args, "zp", &name, &blind)) return NULL;
    if (name == NULL) way = fj_has_watchers() ? BY_EVENT : BY_VERSION;
    else if (strcmp(name, "values") == 0) way = BY_VALUE;
    else if (strcmp(name, "versions") == 0) way = BY_VERSION;
    else if (strcmp(name, "events") == 0 && fj_has_watchers()) way = BY_EVENT;
    else return PyErr_Format(PyExc_ValueError, "cannot watch by %s", name);
    blind_for_attributes = blind;
    Py_RETURN_NONE;
}

/* shows(dict, change): does calling `change` show as a change of the dictionary, in the way set? */
static PyObject *shows(PyObject *module, PyObject *args) {
    PyObject *dict, *change;
    if (!PyArg_ParseTuple(args, "O!O", &PyDict_Type, &dict, &change)) return NULL;
    uint64_t changed = 0, version = ((PyDictObject *)dict)->ma_version_tag;
    fj_watch watch = {.any_key = 1, .changed = &changed, .owner_changed = &changed};
    if (way == BY_EVENT && fj_watch_begin(&watch, dict) < 0) Py_RETURN_FALSE;
    PyObject *result = PyObject_CallNoArgs(change);
    fj_watch_end(&watch);
    if (result == NULL) return NULL;
    Py_DECREF(result);
    if (way != BY_EVENT) changed = ((PyDictObject *)dict)->ma_version_tag != version;
    return PyBool_FromLong(changed != 0);
}

PyMethodDef fj_watch_methods[] = {
    {"set_watching", set_watching, METH_VARARGS, "set_watching(way | None, blind_for_attributes)"},
    {"shows", shows, METH_VARARGS, "shows(dict, change) -> bool: does calling `change` show as a change of the dictionary?"},
    {NULL},
};
