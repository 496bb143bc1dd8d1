/* The loads of a guard program that need more than a line. They return NULL where there is nothing
 * to load; the result is borrowed unless a comment says otherwise. */
#ifndef FRAMEJIT_LOADS_H
#define FRAMEJIT_LOADS_H
#include "program.h"

#include "iterators.h"

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
    if (PyObject_TypeCheck(iterator, fj_deque)) {
        Py_ssize_t at = step->number;
        return fj_deque->tp_as_sequence->sq_item(iterator, at < 0 ? at + Py_SIZE(iterator) : at);
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
    return found ? found : PyErr_Occurred() ? NULL : fj_unbound;
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

#endif
