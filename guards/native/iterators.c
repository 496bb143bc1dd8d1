/* What an iterator made of others keeps for itself, set apart from these: the number of an enumerate, what a chain has open. */
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
    {NULL},
};
