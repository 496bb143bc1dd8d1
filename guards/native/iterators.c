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

/* The same of what itertools.islice, takewhile, dropwhile and pairwise begin with; later versions have more behind it. */
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

typedef struct {
    PyObject_HEAD
    PyObject *pools;
    Py_ssize_t *indices;
    PyObject *given; /* NULL before the first */
    int stopped;
} Product;

static int is_named(PyObject *object, const char *name) { return strcmp(Py_TYPE(object)->tp_name, name) == 0; }

static int is_while(PyObject *object) { return is_named(object, "itertools.takewhile") || is_named(object, "itertools.dropwhile"); }

static PyObject *held_state(PyObject *Py_UNUSED(module), PyObject *object) {
    if (is_named(object, "itertools.islice")) {
        const Slice *of = (Slice *)object;
        Py_ssize_t span = of->stop - of->next;
        Py_ssize_t left = of->iterator == NULL ? 0 : of->stop < 0 ? PY_SSIZE_T_MAX : span <= 0 ? 0 : (span - 1) / of->step + 1;
        return Py_BuildValue("Onnn", of->iterator ? of->iterator : Py_None, of->next - of->count, of->step, left);
    }
    if (is_while(object)) {
        const While *of = (While *)object;
        return Py_BuildValue("OOl", of->function, of->iterator, of->done);
    }
    if (is_named(object, "itertools.pairwise")) {
        const Pairs *of = (Pairs *)object;
        if (of->iterator == NULL) return PyTuple_New(0);
        return of->old ? PyTuple_Pack(2, of->iterator, of->old) : PyTuple_Pack(1, of->iterator);
    }
    if (is_named(object, "itertools.product")) {
        const Product *of = (Product *)object;
        if (of->stopped || of->given == NULL) return Py_BuildValue("OO", of->pools, of->stopped ? Py_False : Py_None);
        PyObject *indices = PyTuple_New(PyTuple_GET_SIZE(of->pools));
        for (Py_ssize_t i = 0; indices != NULL && i < PyTuple_GET_SIZE(indices); i++) {
            PyObject *index = PyLong_FromSsize_t(of->indices[i]);
            if (index == NULL) Py_CLEAR(indices);
            else PyTuple_SET_ITEM(indices, i, index);
        }
        return indices ? Py_BuildValue("ON", of->pools, indices) : NULL;
    }
    return PyErr_Format(PyExc_TypeError, "not known from inside: %R", object);
}

static PyObject *move_slice(PyObject *Py_UNUSED(module), PyObject *args) {
    PyObject *object;
    Py_ssize_t read, given;
    int ended;
    if (!PyArg_ParseTuple(args, "Onnp:move_slice", &object, &read, &given, &ended)) return NULL;
    Slice *of = (Slice *)object;
    if (!is_named(object, "itertools.islice") || of->step != 1) return PyErr_Format(PyExc_TypeError, "no slice of step 1: %R", object);
    of->count += read;
    of->next += given;
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
     "held_state(iterator): what is in an islice (iterator or None, items to skip, step, items left), a takewhile or dropwhile\n"
     "(function, iterator, whether it has stopped or started) a pairwise (iterator, and the item before, if there is one), or a product (pools, indices of what it gave last: None for\n"
     "nothing yet, False for the last)."},
    {"move_slice", move_slice, METH_VARARGS, "move_slice(islice, read, given, ended): so many items were read and given."},
    {"set_done", set_done, METH_O, "set_done(iterator): a takewhile has stopped, a dropwhile has started."},
    {"set_old", set_old, METH_VARARGS, "set_old(pairwise, item): the next pair begins with it; the pairwise itself: there is none."},
    {NULL},
};
