/* Equality of constants: same type and value all the way down, floats by their bits but any NaN is
 * any NaN. The meaning is same_constant in kinds/equality.py. */
#ifndef FRAMEJIT_CONSTANTS_H
#define FRAMEJIT_CONSTANTS_H
#include <Python.h>
#include <string.h>

static inline int
fj_same_double(double a, double b)
{
    return memcmp(&a, &b, sizeof a) == 0 || (a != a && b != b);
}

static inline int
fj_compare(PyObject *expected, PyObject *found)
{
    int equal = PyObject_RichCompareBool(expected, found, Py_EQ);
    if (equal < 0)
        PyErr_Clear();
    return equal == 1;
}

static inline int
fj_same_str(PyObject *a, PyObject *b)
{
    Py_ssize_t length = PyUnicode_GET_LENGTH(a);
    int kind =
        PyUnicode_KIND(a); /* the narrowest that holds the text, so equal texts have equal kinds */
    return length == PyUnicode_GET_LENGTH(b) && kind == (int)PyUnicode_KIND(b) &&
           memcmp(PyUnicode_DATA(a), PyUnicode_DATA(b), (size_t)(length * kind)) == 0;
}

static int
fj_same_constant(PyObject *expected, PyObject *found)
{
    if (expected == found)
        return 1;
    if (Py_TYPE(expected) != Py_TYPE(found))
        return 0;
    if (PyUnicode_CheckExact(expected))
        return fj_same_str(expected, found);
    if (PyFloat_CheckExact(expected))
        return fj_same_double(PyFloat_AS_DOUBLE(expected), PyFloat_AS_DOUBLE(found));
    if (PyComplex_CheckExact(expected)) {
        Py_complex a = PyComplex_AsCComplex(expected), b = PyComplex_AsCComplex(found);
        return fj_same_double(a.real, b.real) && fj_same_double(a.imag, b.imag);
    }
    if (PyTuple_Check(expected)) {
        Py_ssize_t size = PyTuple_GET_SIZE(expected);
        if (size != PyTuple_GET_SIZE(found))
            return 0;
        for (Py_ssize_t i = 0; i < size; i++)
            if (!fj_same_constant(PyTuple_GET_ITEM(expected, i), PyTuple_GET_ITEM(found, i)))
                return 0;
        return 1;
    }
    return fj_compare(expected, found);
}

/* Of a builtin type (bool and None aside, which identity settles), all the way down: comparing runs
 * no Python. */
static int
fj_is_constant(PyObject *key)
{
    if (PyTuple_CheckExact(key)) {
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(key); i++)
            if (!fj_is_constant(PyTuple_GET_ITEM(key, i)))
                return 0;
        return 1;
    }
    return PyUnicode_CheckExact(key) || PyLong_CheckExact(key) || PyFloat_CheckExact(key) ||
           PyComplex_CheckExact(key) || PyBytes_CheckExact(key) || PyBool_Check(key) ||
           key == Py_None;
}

/* A key of a dictionary: constants as above, anything else by identity. */
static inline int
fj_same_key(PyObject *expected, PyObject *found)
{
    return expected == found || (fj_is_constant(expected) && fj_same_constant(expected, found));
}

#endif
