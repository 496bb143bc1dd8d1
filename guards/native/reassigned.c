/* See reassigned.h. Other interpreters of the process share the setters, and may have a GIL of their own. */
#include "object_compat.h"

#include "reassigned.h"

#include <stdatomic.h>

static struct {
    atomic_uint_fast64_t count, under_way;
    atomic_uint_fast64_t classes[64]; /* a bit set by address: of those whose instances anybody asked about; none goes out */
} seen;

static uint64_t add(atomic_uint_fast64_t *number, uint64_t more) {
    return atomic_fetch_add_explicit(number, more, memory_order_relaxed) + more;
}

uint64_t fj_reassigned(void) {
    if (atomic_load_explicit(&seen.under_way, memory_order_relaxed)) return add(&seen.count, 1);
    return atomic_load_explicit(&seen.count, memory_order_relaxed);
}

static atomic_uint_fast64_t *place_of(PyTypeObject *type, uint64_t *bit) {
    uint64_t hash = ((uintptr_t)type >> 4) * 0x9E3779B97F4A7C15u >> 52;
    *bit = (uint64_t)1 << (hash & 63);
    return &seen.classes[hash >> 6];
}

static int is_asked_about(PyTypeObject *type) {
    uint64_t bit, bits = atomic_load_explicit(place_of(type, &bit), memory_order_relaxed);
    return (bits & bit) != 0;
}

/* ---- the setters ------------------------------------------------------------------------------------------------ */

static setter before[2]; /* by fj_reassignment */

/* Counted when it begins and when it is over: it may run Python before and after the assignment itself. */
static int assign(PyObject *object, PyObject *value, void *closure, fj_reassignment what) {
    PyTypeObject *type = Py_TYPE(object);
    add(&seen.under_way, 1);
    if (is_asked_about(type)) add(&seen.count, 1);
    int result = before[what](object, value, closure);
    if (is_asked_about(type)) add(&seen.count, 1); /* by its address: the class may be gone */
    add(&seen.under_way, (uint64_t)-1);
    return result;
}

static int assign_dict(PyObject *object, PyObject *value, void *closure) { return assign(object, value, closure, FJ_DICT); }
static int assign_class(PyObject *object, PyObject *value, void *closure) { return assign(object, value, closure, FJ_CLASS); }

static const setter counting[2] = {assign_dict, assign_class};

/* In CPython's own table, which the descriptors of all classes point to. */
static int replace(PyObject *descriptor, fj_reassignment what) {
    if (!Py_IS_TYPE(descriptor, &PyGetSetDescr_Type)) return 0;
    PyGetSetDef *def = ((PyGetSetDescrObject *)descriptor)->d_getset;
    if (def->set == counting[what]) return 1;
    if (def->set == NULL || (before[what] && def->set != before[what])) return 0;
    before[what] = def->set;
    def->set = counting[what];
    return 1;
}

/* ---- whose are counted ------------------------------------------------------------------------------------------ */

static PyObject *names[2];
static int counted[2];

/* The class's own attribute, borrowed; NULL with or without an exception. */
static PyObject *own(PyTypeObject *type, fj_reassignment what) {
    PyObject *dict = fj_type_dict(type);
    return dict ? PyDict_GetItemWithError(dict, names[what]) : NULL;
}

/* Is there no other descriptor of that name? */
static int by_that_setter_only(PyTypeObject *type, fj_reassignment what) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(type->tp_mro); i++) {
        PyObject *descriptor = own((PyTypeObject *)PyTuple_GET_ITEM(type->tp_mro, i), what);
        if (descriptor == NULL && PyErr_Occurred()) return 0;
        if (descriptor == NULL) continue;
        if (!Py_IS_TYPE(descriptor, &PyGetSetDescr_Type)) return 0;
        if (((PyGetSetDescrObject *)descriptor)->d_getset->set != counting[what]) return 0;
    }
    return 1;
}

/* Was it a class statement that gave the instances their dictionary, not C code with a setter of its own? */
static int has_common_dict(PyTypeObject *type) {
    while (type->tp_base && type->tp_base->tp_dictoffset) type = type->tp_base;
    return own(type, FJ_DICT) != NULL;
}

int fj_counts(PyTypeObject *type, fj_reassignment what) {
    if (!counted[what] || type->tp_mro == NULL) return 0;
    if (!by_that_setter_only(type, what) || (what == FJ_DICT && !has_common_dict(type))) return PyErr_Clear(), 0;
    uint64_t bit;
    atomic_uint_fast64_t *place = place_of(type, &bit);
    atomic_fetch_or_explicit(place, bit, memory_order_relaxed);
    return 1;
}

/* ---- for watching.py -------------------------------------------------------------------------------------------- */

/* count_reassignments(None | (descriptors of `__dict__` ...), descriptor of `__class__`) */
static PyObject *count_reassignments(PyObject *module, PyObject *args) {
    PyObject *dicts, *class;
    if (!PyArg_ParseTuple(args, "O!O", &PyTuple_Type, &dicts, &class)) return NULL;
    if (names[FJ_DICT] == NULL && (names[FJ_DICT] = PyUnicode_InternFromString("__dict__")) == NULL) return NULL;
    if (names[FJ_CLASS] == NULL && (names[FJ_CLASS] = PyUnicode_InternFromString("__class__")) == NULL) return NULL;
    counted[FJ_DICT] = PyTuple_GET_SIZE(dicts) > 0;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(dicts); i++)
        if (!replace(PyTuple_GET_ITEM(dicts, i), FJ_DICT)) counted[FJ_DICT] = 0;
    counted[FJ_CLASS] = class != Py_None && replace(class, FJ_CLASS);
    Py_RETURN_NONE;
}

/* counts_reassignments(class) -> whether another dictionary, or class, of its instances is counted */
static PyObject *counts_reassignments(PyObject *module, PyObject *type) {
    if (!PyType_Check(type)) return PyErr_Format(PyExc_TypeError, "expected a class");
    int dict = fj_counts((PyTypeObject *)type, FJ_DICT), class = fj_counts((PyTypeObject *)type, FJ_CLASS);
    return Py_BuildValue("NN", PyBool_FromLong(dict), PyBool_FromLong(class));
}

static PyObject *reassignments(PyObject *module, PyObject *unused) { return PyLong_FromUnsignedLongLong(fj_reassigned()); }

PyMethodDef fj_reassigned_methods[] = {
    {"count_reassignments", count_reassignments, METH_VARARGS,
     "count_reassignments(descriptors of `__dict__`, descriptor of `__class__` | None): count what these set, and what is not named no more."},
    {"counts_reassignments", counts_reassignments, METH_O,
     "counts_reassignments(class): whether giving its instances another `__dict__` counts, and another class."},
    {"reassignments", reassignments, METH_NOARGS, "How many were counted."},
    {NULL},
};
