/* Looks ahead in iterators of lists, tuples and dictionaries, and sets the number of an enumerate.
 */
#include "object_compat.h" /* first: it says which of Python's headers are to be seen */

#include "iterators.h"

typedef struct { /* CPython's own struct, which no header shows */
    PyObject_HEAD
    Py_ssize_t
        index; /* the greatest number there is: `large` counts from there, or is still to be made */
    PyObject *iterator, *result, *large;
} Enumeration;

static PyObject *
move_index(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *object, *steps;
    if (!PyArg_ParseTuple(args, "O!O!:move_index", &PyEnum_Type, &object, &PyLong_Type, &steps))
        return NULL;
    Enumeration *of = (Enumeration *)object;
    PyObject *before = of->large ? Py_NewRef(of->large) : PyLong_FromSsize_t(of->index);
    PyObject *after = before ? PyNumber_Add(before, steps) : NULL;
    Py_XDECREF(before);
    if (after == NULL)
        return NULL;
    Py_ssize_t index = PyLong_AsSsize_t(after);
    if (index == -1 && PyErr_Occurred()) {
        PyErr_Clear();
        of->index = PY_SSIZE_T_MAX;
        Py_XSETREF(of->large, after);
    }
    else {
        of->index = index;
        Py_DECREF(after);
    }
    Py_RETURN_NONE;
}

PyObject *
fj_peek(PyObject *iterator, Py_ssize_t ahead)
{
    if (fj_is_dict_iterator(iterator)) {
        const fj_dict_iterator *of = (fj_dict_iterator *)iterator;
        PyObject *key = NULL, *value = NULL;
        if (fj_dict_left(of) <= ahead)
            return NULL;
        for (Py_ssize_t at = of->position, i = 0; i <= ahead; i++)
            if (!PyDict_Next((PyObject *)of->dict, &at, &key, &value))
                return NULL;
        if (Py_IS_TYPE(iterator, &PyDictIterItem_Type))
            return PyTuple_Pack(2, key, value);
        return Py_NewRef(Py_IS_TYPE(iterator, &PyDictIterKey_Type) ? key : value);
    }
    if (!Py_IS_TYPE(iterator, &PyListIter_Type) && !Py_IS_TYPE(iterator, &PyTupleIter_Type))
        return NULL;
    const fj_sequence_iterator *of = (fj_sequence_iterator *)iterator;
    if (fj_remaining(iterator) <= ahead)
        return NULL;
    PyObject **items = PyList_Check(of->sequence) ? ((PyListObject *)of->sequence)->ob_item
                                                  : ((PyTupleObject *)of->sequence)->ob_item;
    return Py_NewRef(items[of->index + ahead]);
}

PyMethodDef fj_iterator_methods[] = {
    {"move_index", move_index, METH_VARARGS,
     "move_index(enumerate, steps): the next item's number is so much greater."},
    {NULL},
};
