/* See reassigned.h. Other interpreters of the process share the setters, and may have a GIL of their own. */
#include "object_compat.h"

#include "reassigned.h"

#include <stdatomic.h>
#include <string.h>

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

#define SETTERS(X) X(dict) X(class) X(code) X(defaults) X(keyword_defaults)

typedef enum {
#define X(name) SETTER_##name,
    SETTERS(X)
#undef X
    SETTER_COUNT
} Setter;

static setter before[SETTER_COUNT];

/* Counted when it begins and when it is over: it may run Python before and after the assignment itself. */
static int assign(PyObject *object, PyObject *value, void *closure, Setter which) {
    PyTypeObject *type = Py_TYPE(object);
    add(&seen.under_way, 1);
    if (is_asked_about(type)) add(&seen.count, 1);
    int result = before[which](object, value, closure);
    if (is_asked_about(type)) add(&seen.count, 1); /* by its address: the class may be gone */
    add(&seen.under_way, (uint64_t)-1);
    return result;
}

#define X(name)                                                                                                         \
    static int assign_##name(PyObject *object, PyObject *value, void *closure) {                                        \
        return assign(object, value, closure, SETTER_##name);                                                           \
    }
SETTERS(X)
#undef X

static const setter counting[SETTER_COUNT] = {
#define X(name) assign_##name,
    SETTERS(X)
#undef X
};

/* In CPython's own table, which the descriptors of all classes point to. */
static int replace(PyObject *descriptor, Setter which) {
    if (!Py_IS_TYPE(descriptor, &PyGetSetDescr_Type)) return 0;
    PyGetSetDef *def = ((PyGetSetDescrObject *)descriptor)->d_getset;
    if (def->set == counting[which]) return 1;
    if (def->set == NULL || (before[which] && def->set != before[which])) return 0;
    before[which] = def->set;
    def->set = counting[which];
    return 1;
}

/* ---- whose are counted ------------------------------------------------------------------------------------------ */

static PyObject *names[2]; /* of the descriptors, by fj_reassignment */
static int counted;

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
        if (((PyGetSetDescrObject *)descriptor)->d_getset->set != counting[what == FJ_DICT ? SETTER_dict : SETTER_class]) return 0;
    }
    return 1;
}

/* Was it a class statement that gave the instances their dictionary, not C code with a setter of its own? */
static int has_common_dict(PyTypeObject *type) {
    while (type->tp_base && type->tp_base->tp_dictoffset) type = type->tp_base;
    return own(type, FJ_DICT) != NULL;
}

static int is_set_in_common_way(PyTypeObject *type, fj_reassignment what) {
    if (what == FJ_FUNCTION) return type == &PyFunction_Type;
    return type->tp_mro && by_that_setter_only(type, what) && (what == FJ_CLASS || has_common_dict(type));
}

int fj_counts(PyTypeObject *type, fj_reassignment what) {
    if (!counted || !is_set_in_common_way(type, what)) return PyErr_Clear(), 0;
    uint64_t bit;
    atomic_uint_fast64_t *place = place_of(type, &bit);
    atomic_fetch_or_explicit(place, bit, memory_order_relaxed);
    return 1;
}

/* ---- for watching.py -------------------------------------------------------------------------------------------- */

static Setter setter_named(const char *name) {
#define X(known) if (strcmp(name, #known) == 0) return SETTER_##known;
    SETTERS(X)
#undef X
    return SETTER_COUNT;
}

/* count_reassignments(((name of a setter, its descriptor), ...)); () to rely on none. */
static PyObject *count_reassignments(PyObject *module, PyObject *descriptors) {
    if (!PyTuple_Check(descriptors)) return PyErr_Format(PyExc_TypeError, "expected a tuple");
    if (names[FJ_DICT] == NULL && (names[FJ_DICT] = PyUnicode_InternFromString("__dict__")) == NULL) return NULL;
    if (names[FJ_CLASS] == NULL && (names[FJ_CLASS] = PyUnicode_InternFromString("__class__")) == NULL) return NULL;
    counted = PyTuple_GET_SIZE(descriptors) > 0;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(descriptors); i++) {
        const char *name;
        PyObject *descriptor;
        if (!PyArg_ParseTuple(PyTuple_GET_ITEM(descriptors, i), "sO", &name, &descriptor)) return counted = 0, NULL;
        Setter which = setter_named(name);
        if (which == SETTER_COUNT || !replace(descriptor, which)) counted = 0;
    }
    return PyBool_FromLong(counted);
}

/* counts_reassignments(class) -> of its instances, whether another dictionary, class, part of a function is counted */
static PyObject *counts_reassignments(PyObject *module, PyObject *type) {
    if (!PyType_Check(type)) return PyErr_Format(PyExc_TypeError, "expected a class");
    int found[3];
    for (int what = 0; what < 3; what++) found[what] = fj_counts((PyTypeObject *)type, what);
    return Py_BuildValue("(NNN)", PyBool_FromLong(found[0]), PyBool_FromLong(found[1]), PyBool_FromLong(found[2]));
}

static PyObject *reassignments(PyObject *module, PyObject *unused) { return PyLong_FromUnsignedLongLong(fj_reassigned()); }

PyMethodDef fj_reassigned_methods[] = {
    {"count_reassignments", count_reassignments, METH_O,
     "count_reassignments(((name, descriptor), ...)) -> bool: have these setters count from now on; () to rely on no count."},
    {"counts_reassignments", counts_reassignments, METH_O,
     "counts_reassignments(class): whether giving its instances another dictionary counts, another class, another part of a function."},
    {"reassignments", reassignments, METH_NOARGS, "How many were counted."},
    {NULL},
};
