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

typedef struct { /* the same; later versions have more behind it */
    PyObject_HEAD
    PyObject *iterator;
    Py_ssize_t next, stop, step, count;
} Slice;

static int is_slice(PyObject *object) { return strcmp(Py_TYPE(object)->tp_name, "itertools.islice") == 0; }

static PyObject *slice_state(PyObject *Py_UNUSED(module), PyObject *object) {
    if (!is_slice(object)) return PyErr_Format(PyExc_TypeError, "no islice: %R", object);
    const Slice *of = (Slice *)object;
    Py_ssize_t span = of->stop - of->next;
    Py_ssize_t left = of->iterator == NULL ? 0 : of->stop < 0 ? PY_SSIZE_T_MAX : span <= 0 ? 0 : (span - 1) / of->step + 1;
    Py_ssize_t tail = of->stop < 0 || span <= 0 ? 0 : (span - 1) % of->step;
    return Py_BuildValue("Onnnn", of->iterator ? of->iterator : Py_None, of->next - of->count, of->step, left, tail);
}

static PyObject *move_slice(PyObject *Py_UNUSED(module), PyObject *args) {
    PyObject *object;
    Py_ssize_t read, given;
    int ended;
    if (!PyArg_ParseTuple(args, "Onnp:move_slice", &object, &read, &given, &ended)) return NULL;
    Slice *of = (Slice *)object;
    if (!is_slice(object)) return PyErr_Format(PyExc_TypeError, "no islice: %R", object);
    of->count += read;
    of->next += given * of->step;
    if (of->stop >= 0 && of->next > of->stop) of->next = of->stop;
    if (ended) Py_CLEAR(of->iterator);
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
    {"slice_state", slice_state, METH_O,
     "slice_state(islice): iterator or None, items to skip, step, items left, how many to skip behind the last."},
    {"stored_hashes", stored_hashes, METH_O, "stored_hashes(dict or set): the hashes under which it holds its keys, in order."},
    {"move_slice", move_slice, METH_VARARGS, "move_slice(islice, read, given, ended): so many items were read and given."},
    {NULL},
};
