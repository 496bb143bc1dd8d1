/* Lists of CPython's garbage collector: makes the objects of an import permanent, as gc.freeze()
 * does with all objects.
 *
 * hide_young, import, gc.collect(0), freeze_young, show_young: what was young before is young
 * again, and what the import has made is in the permanent generation, which no collection visits.
 * survivors, set_survivors: how many objects have become old since the last full collection; once
 * they are a quarter of those that it left, the next one is due.
 * Lists and counts are the same in CPython 3.11, 3.12 and 3.13. */
#define Py_BUILD_CORE 1
#include <Python.h>

#ifdef Py_GIL_DISABLED
#error "framejit counts on the GIL; free-threaded builds are not supported"
#endif

#include "internal/pycore_gc.h"
#include "internal/pycore_interp.h"

#define YOUNG 2 /* generations 0 and 1 */

static PyGC_Head hidden[YOUNG];
static int is_hidden = 0;

static PyGC_Head *
generation(int number)
{
    return &PyInterpreterState_Get()->gc.generations[number].head;
}

static void
make_empty(PyGC_Head *list)
{
    list->_gc_next = list->_gc_prev = (uintptr_t)list;
}

/* Appends the objects of `from`, which is empty afterwards. */
static void
append_all(PyGC_Head *from, PyGC_Head *to)
{
    PyGC_Head *first = _PyGCHead_NEXT(from), *last = _PyGCHead_PREV(from);
    PyGC_Head *end = _PyGCHead_PREV(to);
    if (first == from) {
        return;
    }
    _PyGCHead_SET_NEXT(end, first);
    _PyGCHead_SET_PREV(first, end);
    _PyGCHead_SET_NEXT(last, to);
    _PyGCHead_SET_PREV(to, last);
    make_empty(from);
}

static PyObject *
hide_young(PyObject *module, PyObject *unused)
{
    if (is_hidden) {
        Py_RETURN_FALSE;
    }
    for (int number = 0; number < YOUNG; number++) {
        make_empty(&hidden[number]);
        append_all(generation(number), &hidden[number]);
    }
    is_hidden = 1;
    Py_RETURN_TRUE;
}

static PyObject *
freeze_young(PyObject *module, PyObject *unused)
{
    for (int number = 0; number < YOUNG; number++) {
        append_all(generation(number), &PyInterpreterState_Get()->gc.permanent_generation.head);
    }
    Py_RETURN_NONE;
}

static PyObject *
show_young(PyObject *module, PyObject *unused)
{
    for (int number = 0; is_hidden && number < YOUNG; number++) {
        append_all(&hidden[number], generation(number));
    }
    is_hidden = 0;
    Py_RETURN_NONE;
}

static PyObject *
survivors(PyObject *module, PyObject *unused)
{
    return PyLong_FromSsize_t(PyInterpreterState_Get()->gc.long_lived_pending);
}

static PyObject *
set_survivors(PyObject *module, PyObject *number)
{
    Py_ssize_t count = PyLong_AsSsize_t(number);
    if (count == -1 && PyErr_Occurred()) {
        return NULL;
    }
    PyInterpreterState_Get()->gc.long_lived_pending = count;
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"hide_young", hide_young, METH_NOARGS, NULL},
    {"freeze_young", freeze_young, METH_NOARGS, NULL},
    {"show_young", show_young, METH_NOARGS, NULL},
    {"survivors", survivors, METH_NOARGS, NULL},
    {"set_survivors", set_survivors, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_generations", NULL, -1, methods, NULL, NULL, NULL, NULL,
};

PyMODINIT_FUNC
PyInit__generations(void)
{
    return PyModule_Create(&definition);
}
