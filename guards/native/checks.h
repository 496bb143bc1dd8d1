/* The checks of a guard program that need more than a line. */
#ifndef FRAMEJIT_CHECKS_H
#define FRAMEJIT_CHECKS_H
#include "program.h"

#include "constants.h"

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
    if (PyObject_TypeCheck(object, fj_deque))
        return fj_deque->tp_as_sequence->sq_length(object);
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

#endif
