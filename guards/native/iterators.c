/* What an iterator made of others keeps for itself, set apart from these: the number of an enumerate, what a chain has open,
 * how far a slice is. */
#include "object_compat.h" /* first: it says which of Python's headers are to be seen */

#include "iterators.h"

#include <string.h>

typedef struct { /* CPython's own struct, which no header shows */
    PyObject_HEAD
    Py_ssize_t index; /* the greatest number there is: `large` counts from there, or is still to be made */
    PyObject *iterator, *result, *large;
} Enumeration;

static PyObject *move_index(PyObject *Py_UNUSED(module), PyObject *args) {
    PyObject *object, *steps;
    if (!PyArg_ParseTuple(args, "O!O!:move_index", &PyEnum_Type, &object, &PyLong_Type, &steps)) return NULL;
    Enumeration *of = (Enumeration *)object;
    PyObject *before = of->large ? Py_NewRef(of->large) : PyLong_FromSsize_t(of->index);
    PyObject *after = before ? PyNumber_Add(before, steps) : NULL;
    Py_XDECREF(before);
    if (after == NULL) return NULL;
    Py_ssize_t index = PyLong_AsSsize_t(after);
    if (index == -1 && PyErr_Occurred()) {
        PyErr_Clear();
        of->index = PY_SSIZE_T_MAX;
        Py_XSETREF(of->large, after);
    } else {
        of->index = index;
        Py_DECREF(after);
    }
    Py_RETURN_NONE;
}

typedef struct { /* the same */
    PyObject_HEAD
    PyObject *source, *active;
} Chain;

static PyObject *set_open(PyObject *Py_UNUSED(module), PyObject *args) {
    PyObject *object, *active;
    if (!PyArg_ParseTuple(args, "OO:set_open", &object, &active)) return NULL;
    if (strcmp(Py_TYPE(object)->tp_name, "itertools.chain") != 0) return PyErr_Format(PyExc_TypeError, "no chain: %R", object);
    Chain *of = (Chain *)object;
    if (active == object) Py_CLEAR(of->source); /* it has come to its end */
    if (active == object || active == Py_None) Py_CLEAR(of->active);
    else Py_XSETREF(of->active, Py_NewRef(active));
    Py_RETURN_NONE;
}

/* The same of what others of itertools begin with; later versions have more behind it. */
typedef struct {
    PyObject_HEAD
    PyObject *iterator;
    Py_ssize_t next, stop, step, count;
} Slice;

typedef struct {
    PyObject_HEAD
    PyObject *function, *iterator;
    long done;
} While;

typedef struct {
    PyObject_HEAD
    PyObject *iterator, *old;
} Pairs;

typedef struct { /* combinations, with replacement or without, begin alike */
    PyObject_HEAD
    PyObject *pools;
    Py_ssize_t *indices;
    PyObject *given; /* NULL before the first */
    int stopped;
} Product;

typedef struct {
    PyObject_HEAD
    PyObject *pool;
    Py_ssize_t *indices;
    PyObject *given;
    Py_ssize_t length;
    int stopped;
} Combinations;

typedef struct {
    PyObject_HEAD
    PyObject *pool;
    Py_ssize_t *indices, *cycles;
    PyObject *given;
    Py_ssize_t length;
    int stopped;
} Permutations;

typedef struct {
    PyObject_HEAD
    PyObject *iterator, *saved;
    Py_ssize_t index;
    int copied; /* from one that had saved its items before */
} Cycle;

typedef struct {
    PyObject_HEAD
    Py_ssize_t size, active;
    PyObject *iterators, *result, *fill;
} ZipLongest;

typedef struct {
    PyObject_HEAD
    PyObject *total, *iterator, *function, *initial;
} Accumulate;

typedef struct {
    PyObject_HEAD
    PyObject *iterator, *function, *target, *key, *item;
    const void *current; /* a group, which may be gone */
} GroupBy;

typedef struct {
    PyObject_HEAD
    PyObject *of, *key;
} Group;

typedef struct {
    PyObject_HEAD
    PyObject *function, *sentinel;
} CallIterator;

static int is_named(PyObject *object, const char *name) { return strcmp(Py_TYPE(object)->tp_name, name) == 0; }

static int is_while(PyObject *object) { return is_named(object, "itertools.takewhile") || is_named(object, "itertools.dropwhile"); }

static PyObject *or_else(PyObject *object, PyObject *other) { return object ? object : other; }

static PyObject *slice_state(PyObject *object) {
    const Slice *of = (Slice *)object;
    Py_ssize_t span = of->stop - of->next;
    Py_ssize_t left = of->iterator == NULL ? 0 : of->stop < 0 ? PY_SSIZE_T_MAX : span <= 0 ? 0 : (span - 1) / of->step + 1;
    Py_ssize_t tail = of->stop < 0 || span <= 0 ? 0 : (span - 1) % of->step;
    return Py_BuildValue("Onnnn", or_else(of->iterator, Py_None), of->next - of->count, of->step, left, tail);
}

static PyObject *while_state(PyObject *object) {
    const While *of = (While *)object;
    return Py_BuildValue("OOl", of->function, of->iterator, of->done);
}

static PyObject *pairs_state(PyObject *object) {
    const Pairs *of = (Pairs *)object;
    if (of->iterator == NULL) return PyTuple_New(0);
    return of->old ? PyTuple_Pack(2, of->iterator, of->old) : PyTuple_Pack(1, of->iterator);
}

/* Pools, indices of what was given last (None: nothing yet, False: the last one), and how many there are. */
static PyObject *choice_state(PyObject *pools, const Py_ssize_t *indices, Py_ssize_t length, const PyObject *given, int stopped) {
    if (stopped || given == NULL) return Py_BuildValue("OOn", pools, stopped ? Py_False : Py_None, length);
    PyObject *last = PyTuple_New(length);
    for (Py_ssize_t i = 0; last != NULL && i < length; i++) {
        PyObject *index = PyLong_FromSsize_t(indices[i]);
        if (index == NULL) Py_CLEAR(last);
        else PyTuple_SET_ITEM(last, i, index);
    }
    return last ? Py_BuildValue("ONn", pools, last, length) : NULL;
}

static PyObject *product_state(PyObject *object) {
    const Product *of = (Product *)object;
    return choice_state(of->pools, of->indices, PyTuple_GET_SIZE(of->pools), of->given, of->stopped);
}

static PyObject *combinations_state(PyObject *object) {
    const Combinations *of = (Combinations *)object;
    return choice_state(of->pool, of->indices, of->length, of->given, of->stopped);
}

static PyObject *permutations_state(PyObject *object) {
    const Permutations *of = (Permutations *)object;
    return choice_state(of->pool, of->indices, of->length, of->given, of->stopped);
}

static PyObject *cycle_state(PyObject *object) {
    const Cycle *of = (Cycle *)object;
    return Py_BuildValue("OOni", or_else(of->iterator, Py_None), of->saved, of->index, of->copied);
}

static PyObject *longest_state(PyObject *object) {
    const ZipLongest *of = (ZipLongest *)object;
    PyObject *parts = PyTuple_New(of->size + 1);
    if (parts == NULL) return NULL;
    PyTuple_SET_ITEM(parts, 0, Py_NewRef(or_else(of->fill, Py_None)));
    for (Py_ssize_t i = 0; i < of->size; i++)
        PyTuple_SET_ITEM(parts, i + 1, Py_NewRef(or_else(of->active ? PyTuple_GET_ITEM(of->iterators, i) : NULL, Py_None)));
    return parts;
}

static PyObject *accumulate_state(PyObject *object) {
    const Accumulate *of = (Accumulate *)object;
    return Py_BuildValue("OOOO", of->iterator, or_else(of->function, Py_None), or_else(of->initial, Py_None), or_else(of->total, object));
}

static PyObject *groups_state(PyObject *object) {
    const GroupBy *of = (GroupBy *)object;
    return Py_BuildValue("OOOOO", of->iterator, of->function, or_else(of->target, object), or_else(of->key, object), or_else(of->item, object));
}

static PyObject *group_state(PyObject *object) {
    const Group *of = (Group *)object;
    return Py_BuildValue("OOi", of->of, of->key, ((GroupBy *)of->of)->current == object);
}

static PyObject *batched_state(PyObject *object) {
    const fj_batched *of = (fj_batched *)object;
    return Py_BuildValue("Oni", or_else(of->iterator, Py_None), of->size, fj_is_strict(of));
}

static PyObject *calls_state(PyObject *object) {
    const CallIterator *of = (CallIterator *)object;
    return of->function && of->sentinel ? PyTuple_Pack(2, of->function, of->sentinel) : PyTuple_New(0);
}

static const struct {
    const char *name;
    PyObject *(*read)(PyObject *);
} readers[] = {
    {"itertools.islice", slice_state},
    {"itertools.takewhile", while_state},
    {"itertools.dropwhile", while_state},
    {"itertools.pairwise", pairs_state},
    {"itertools.product", product_state},
    {"itertools.combinations", combinations_state},
    {"itertools.combinations_with_replacement", combinations_state},
    {"itertools.permutations", permutations_state},
    {"itertools.cycle", cycle_state},
    {"itertools.zip_longest", longest_state},
    {"itertools.accumulate", accumulate_state},
    {"itertools.groupby", groups_state},
    {"itertools._grouper", group_state},
    {"itertools.batched", batched_state},
    {"callable_iterator", calls_state},
};

static PyObject *held_state(PyObject *Py_UNUSED(module), PyObject *object) {
    for (size_t i = 0; i < sizeof readers / sizeof *readers; i++)
        if (is_named(object, readers[i].name)) return readers[i].read(object);
    return PyErr_Format(PyExc_TypeError, "not known from inside: %R", object);
}

static PyObject *move_cycle(PyObject *Py_UNUSED(module), PyObject *args) {
    PyObject *object;
    Py_ssize_t steps;
    int ended;
    if (!PyArg_ParseTuple(args, "Onp:move_cycle", &object, &steps, &ended)) return NULL;
    if (!is_named(object, "itertools.cycle")) return PyErr_Format(PyExc_TypeError, "no cycle: %R", object);
    Cycle *of = (Cycle *)object;
    Py_ssize_t length = PyList_GET_SIZE(of->saved);
    if (length) of->index = (of->index + steps) % length;
    if (ended) Py_CLEAR(of->iterator);
    Py_RETURN_NONE;
}

static PyObject *set_ended(PyObject *Py_UNUSED(module), PyObject *args) {
    PyObject *object;
    Py_ssize_t place;
    if (!PyArg_ParseTuple(args, "On:set_ended", &object, &place)) return NULL;
    if (is_named(object, "itertools.batched")) {
        Py_CLEAR(((fj_batched *)object)->iterator);
    } else if (is_named(object, "callable_iterator")) {
        Py_CLEAR(((CallIterator *)object)->function);
        Py_CLEAR(((CallIterator *)object)->sentinel);
    } else if (is_named(object, "itertools.zip_longest")) {
        ZipLongest *of = (ZipLongest *)object;
        if (place < 0 || place >= of->size) return PyErr_Format(PyExc_IndexError, "no iterator %zd", place);
        PyObject *ended = PyTuple_GET_ITEM(of->iterators, place);
        if (ended == NULL || of->active == 0) Py_RETURN_NONE;
        if (--of->active) { /* the last one stays where it is */
            PyTuple_SET_ITEM(of->iterators, place, NULL);
            Py_DECREF(ended);
        }
    } else {
        return PyErr_Format(PyExc_TypeError, "of this no iterator can end: %R", object);
    }
    Py_RETURN_NONE;
}

static PyObject *set_total(PyObject *Py_UNUSED(module), PyObject *args) {
    PyObject *object, *total;
    if (!PyArg_ParseTuple(args, "OO:set_total", &object, &total)) return NULL;
    if (!is_named(object, "itertools.accumulate")) return PyErr_Format(PyExc_TypeError, "no accumulate: %R", object);
    Accumulate *of = (Accumulate *)object;
    Py_XSETREF(of->total, Py_NewRef(total));
    Py_XSETREF(of->initial, Py_NewRef(Py_None));
    Py_RETURN_NONE;
}

static PyObject *set_ahead(PyObject *Py_UNUSED(module), PyObject *args) {
    PyObject *object, *target, *key, *item;
    if (!PyArg_ParseTuple(args, "OOOO:set_ahead", &object, &target, &key, &item)) return NULL;
    if (!is_named(object, "itertools.groupby")) return PyErr_Format(PyExc_TypeError, "no groupby: %R", object);
    GroupBy *of = (GroupBy *)object;
    Py_XSETREF(of->target, target == object ? NULL : Py_NewRef(target));
    Py_XSETREF(of->key, key == object ? NULL : Py_NewRef(key));
    Py_XSETREF(of->item, item == object ? NULL : Py_NewRef(item));
    Py_RETURN_NONE;
}

static PyObject *set_group(PyObject *Py_UNUSED(module), PyObject *args) {
    PyObject *object, *group;
    if (!PyArg_ParseTuple(args, "OO:set_group", &object, &group)) return NULL;
    if (!is_named(object, "itertools.groupby")) return PyErr_Format(PyExc_TypeError, "no groupby: %R", object);
    ((GroupBy *)object)->current = group == object ? NULL : group;
    Py_RETURN_NONE;
}

static PyObject *new_group(PyObject *Py_UNUSED(module), PyObject *args) {
    PyObject *type, *object, *key;
    if (!PyArg_ParseTuple(args, "OOO:new_group", &type, &object, &key)) return NULL;
    if (!is_named(object, "itertools.groupby")) return PyErr_Format(PyExc_TypeError, "no groupby: %R", object);
    GroupBy *of = (GroupBy *)object;
    const void *current = of->current;
    PyObject *group = PyObject_CallFunctionObjArgs(type, object, key, NULL);
    of->current = current == group ? NULL : current; /* that one is gone, its memory taken */
    return group;
}

static PyObject *move_slice(PyObject *Py_UNUSED(module), PyObject *args) {
    PyObject *object;
    Py_ssize_t read, given;
    int ended;
    if (!PyArg_ParseTuple(args, "Onnp:move_slice", &object, &read, &given, &ended)) return NULL;
    Slice *of = (Slice *)object;
    if (!is_named(object, "itertools.islice")) return PyErr_Format(PyExc_TypeError, "no slice: %R", object);
    of->count += read;
    of->next += given * of->step;
    if (of->stop >= 0 && of->next > of->stop) of->next = of->stop;
    if (ended) Py_CLEAR(of->iterator);
    Py_RETURN_NONE;
}

static PyObject *set_done(PyObject *Py_UNUSED(module), PyObject *object) {
    if (!is_while(object)) return PyErr_Format(PyExc_TypeError, "no takewhile or dropwhile: %R", object);
    ((While *)object)->done = 1;
    Py_RETURN_NONE;
}

static PyObject *set_old(PyObject *Py_UNUSED(module), PyObject *args) {
    PyObject *object, *old;
    if (!PyArg_ParseTuple(args, "OO:set_old", &object, &old)) return NULL;
    if (!is_named(object, "itertools.pairwise")) return PyErr_Format(PyExc_TypeError, "no pairwise: %R", object);
    Pairs *of = (Pairs *)object;
    if (old == object) { /* it has come to its end */
        Py_CLEAR(of->iterator);
        Py_CLEAR(of->old);
    } else {
        Py_XSETREF(of->old, Py_NewRef(old));
    }
    Py_RETURN_NONE;
}

static int append_hash(PyObject *list, Py_hash_t hash) {
    PyObject *number = PyLong_FromSsize_t(hash);
    int failed = number == NULL || PyList_Append(list, number) < 0;
    Py_XDECREF(number);
    return failed;
}

/* The hashes under which a dictionary or set holds its keys, in the order of its table; the keys are not asked. */
static PyObject *stored_hashes(PyObject *Py_UNUSED(module), PyObject *object) {
    if (!PyDict_Check(object) && !PyAnySet_Check(object)) return PyErr_Format(PyExc_TypeError, "neither a dictionary nor a set: %R", object);
    PyObject *found = PyList_New(0);
    int failed = found == NULL;
    if (PyAnySet_Check(object)) {
        const PySetObject *set = (PySetObject *)object;
        for (Py_ssize_t i = 0; i <= set->mask && !failed; i++) /* what was taken out has left a mark with this hash */
            if (set->table[i].key && set->table[i].hash != -1) failed = append_hash(found, set->table[i].hash);
    } else if (((PyDictObject *)object)->ma_keys->dk_kind == DICT_KEYS_GENERAL) {
        PyDictKeysObject *keys = ((PyDictObject *)object)->ma_keys;
        for (Py_ssize_t i = 0; i < keys->dk_nentries && !failed; i++)
            if (DK_ENTRIES(keys)[i].me_value) failed = append_hash(found, DK_ENTRIES(keys)[i].me_hash);
    } else { /* strings alone */
        PyObject *key, *value;
        for (Py_ssize_t at = 0; !failed && PyDict_Next(object, &at, &key, &value);) failed = append_hash(found, PyObject_Hash(key));
    }
    if (failed) Py_CLEAR(found);
    return found;
}

PyObject *fj_peek(PyObject *iterator, Py_ssize_t ahead) {
    if (fj_is_dict_iterator(iterator)) {
        const fj_dict_iterator *of = (fj_dict_iterator *)iterator;
        PyObject *key = NULL, *value = NULL;
        if (fj_dict_left(of) <= ahead) return NULL;
        for (Py_ssize_t at = of->position, i = 0; i <= ahead; i++)
            if (!PyDict_Next((PyObject *)of->dict, &at, &key, &value)) return NULL;
        if (Py_IS_TYPE(iterator, &PyDictIterItem_Type)) return PyTuple_Pack(2, key, value);
        return Py_NewRef(Py_IS_TYPE(iterator, &PyDictIterKey_Type) ? key : value);
    }
    if (!Py_IS_TYPE(iterator, &PyListIter_Type) && !Py_IS_TYPE(iterator, &PyTupleIter_Type)) return NULL;
    const fj_sequence_iterator *of = (fj_sequence_iterator *)iterator;
    if (fj_remaining(iterator) <= ahead) return NULL;
    PyObject **items = PyList_Check(of->sequence) ? ((PyListObject *)of->sequence)->ob_item : ((PyTupleObject *)of->sequence)->ob_item;
    return Py_NewRef(items[of->index + ahead]);
}

PyMethodDef fj_iterator_methods[] = {
    {"move_index", move_index, METH_VARARGS, "move_index(enumerate, steps): the next item's number is so much greater."},
    {"set_open", set_open, METH_VARARGS,
     "set_open(chain, iterator): the next items come from there; None: from what follows; the chain itself: there are none."},
    {"held_state", held_state, METH_O,
     "held_state(iterator): what is in one. islice: iterator or None, items to skip, step, items left, how\n"
     "many to skip behind the last. takewhile, dropwhile: function, iterator, whether it has stopped or started. pairwise: iterator, and the item before, if there is one. product and its kin: pools,\n"
     "indices of what it gave last (None for nothing yet, False for the last), how many. cycle: iterator or None, items read, index, whether\n"
     "it is a copy. zip_longest: filling, iterators or None. accumulate: iterator, function or None, start or None, total. groupby: iterator,\n"
     "function, key of the group, key and item ahead. A group: its groupby, key, whether it is the current one. batched: iterator or None,\n"
     "size, whether it is strict. iter(function, sentinel): both, if it has not ended. The object itself stands for what is not there."},
    {"stored_hashes", stored_hashes, METH_O, "stored_hashes(dict or set): the hashes under which it holds its keys, in order."},
    {"move_cycle", move_cycle, METH_VARARGS, "move_cycle(cycle, steps, ended): it goes on so many items later; ended: it reads no more."},
    {"set_ended", set_ended, METH_VARARGS, "set_ended(iterator, place): the iterator at this place has nothing more for this one."},
    {"set_total", set_total, METH_VARARGS, "set_total(accumulate, total): the total given last."},
    {"set_ahead", set_ahead, METH_VARARGS, "set_ahead(groupby, target, key, item): what it stands at; the groupby itself: nothing."},
    {"set_group", set_group, METH_VARARGS, "set_group(groupby, group): its current group; the groupby itself: none."},
    {"new_group", new_group, METH_VARARGS, "new_group(type, groupby, key): another group of it; the current one stays that."},
    {"move_slice", move_slice, METH_VARARGS, "move_slice(islice, read, given, ended): so many items were read and given."},
    {"set_done", set_done, METH_O, "set_done(iterator): a takewhile has stopped, a dropwhile has started."},
    {"set_old", set_old, METH_VARARGS, "set_old(pairwise, item): the next pair begins with it; the pairwise itself: there is none."},
    {NULL},
};
