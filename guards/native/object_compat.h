/* What differs between CPython 3.11, 3.12 and 3.13 in objects and types; the only version tests of guards/.
 *
 * An object's own attributes lie in a dictionary, or, until somebody asks for it, in a values array of which the class
 * knows the keys. A `fj_instance` views either without making the dictionary (that would slow the user's object down). */
#ifndef FRAMEJIT_OBJECT_COMPAT_H
#define FRAMEJIT_OBJECT_COMPAT_H
#ifndef Py_BUILD_CORE
#define Py_BUILD_CORE 1
#endif
#include <Python.h>
#include <internal/pycore_dict.h>
#include <internal/pycore_object.h>
#include <stdint.h>

#if PY_VERSION_HEX < 0x030B0000 || PY_VERSION_HEX >= 0x030E0000
#error "framejit knows CPython 3.11, 3.12 and 3.13"
#endif

typedef struct {
    PyObject *dict;             /* borrowed; or NULL and: */
    PyDictKeysObject *keys;     /* the class's shared keys, NULL if the object has no attributes */
    PyObject **values;          /* values[i] belongs to key i, NULL if absent */
    const uint8_t *order;       /* order[direction * n] is the index of the n-th attribute set */
    int direction;
    int size;                   /* how many are set */
    int can;                    /* may it have a dictionary at all? */
} fj_instance;

#if PY_VERSION_HEX >= 0x030D0000

static inline void fj_inline_values(PyObject *object, fj_instance *view) {
    view->dict = (PyObject *)_PyObject_GetManagedDict(object);
    if (view->dict || !(Py_TYPE(object)->tp_flags & Py_TPFLAGS_INLINE_VALUES)) return;
    PyDictValues *values = _PyObject_InlineValues(object);
    if (!values->valid) return;
    view->keys = ((PyHeapTypeObject *)Py_TYPE(object))->ht_cached_keys;
    view->values = values->values;
    view->order = get_insertion_order_array(values);
    view->direction = 1;
    view->size = values->size;
}

#else

static inline void fj_values_before(PyObject *object, PyDictValues *values, fj_instance *view) {
    view->keys = ((PyHeapTypeObject *)Py_TYPE(object))->ht_cached_keys;
    view->values = values->values;
    view->size = ((uint8_t *)values)[-2];
    view->order = (uint8_t *)values - 3;
    view->direction = -1;
}

#if PY_VERSION_HEX >= 0x030C0000

static inline void fj_inline_values(PyObject *object, fj_instance *view) {
    PyDictOrValues either = *_PyObject_DictOrValuesPointer(object);
    if (!_PyDictOrValues_IsValues(either)) view->dict = _PyDictOrValues_GetDict(either);
    else fj_values_before(object, _PyDictOrValues_GetValues(either), view);
}

#else

static inline void fj_inline_values(PyObject *object, fj_instance *view) {
    PyDictValues *values = *_PyObject_ValuesPointer(object);
    if (values == NULL) view->dict = *_PyObject_ManagedDictPointer(object);
    else fj_values_before(object, values, view);
}

#endif
#endif

static inline fj_instance fj_instance_of(PyObject *object) {
    fj_instance view = {0};
    if (Py_TYPE(object)->tp_flags & Py_TPFLAGS_MANAGED_DICT) {
        view.can = 1;
        fj_inline_values(object, &view);
    } else {
        PyObject **place = _PyObject_GetDictPtr(object);
        view.can = place != NULL;
        view.dict = place ? *place : NULL;
    }
    return view;
}

/* The dictionary of a class's own attributes; borrowed (the class, or for static types the interpreter, holds it). */
static inline PyObject *fj_type_dict(PyTypeObject *type) {
#if PY_VERSION_HEX >= 0x030C0000
    PyObject *dict = PyType_GetDict(type);
    Py_XDECREF(dict);
    return dict;
#else
    return type->tp_dict;
#endif
}

/* ---- the same for all versions ---------------------------------------------------------------------------------- */

static inline PyObject *fj_dict_item(PyObject *dict, PyObject *key, Py_hash_t hash) {
    PyObject *value = _PyDict_GetItem_KnownHash(dict, key, hash);
    if (value == NULL && PyErr_Occurred()) PyErr_Clear();
    return value;
}

static inline int fj_same_name(PyObject *a, PyObject *b) {
    return a == b || (a != NULL && PyUnicode_GET_LENGTH(a) == PyUnicode_GET_LENGTH(b) && PyUnicode_Compare(a, b) == 0);
}

/* The attribute `name` (an exact str) in the object's own attributes, borrowed, or NULL. `hint` remembers where the
 * class keeps it. */
static inline PyObject *fj_instance_item(PyObject *object, PyObject *name, Py_hash_t hash, int32_t *hint) {
    fj_instance view = fj_instance_of(object);
    if (view.dict != NULL) return fj_dict_item(view.dict, name, hash);
    if (view.keys == NULL || view.keys->dk_kind == DICT_KEYS_GENERAL) return NULL;
    const PyDictUnicodeEntry *entries = DK_UNICODE_ENTRIES(view.keys);
    Py_ssize_t known = view.keys->dk_nentries;
    if (*hint < known && entries[*hint].me_key == name) return view.values[*hint];
    for (Py_ssize_t i = 0; i < known; i++)
        if (fj_same_name(entries[i].me_key, name)) {
            *hint = (int32_t)i;
            return view.values[i];
        }
    return NULL;
}

static inline Py_ssize_t fj_instance_length(const fj_instance *view) {
    return view->dict ? PyDict_GET_SIZE(view->dict) : view->size;
}

/* The next key in order of insertion, borrowed; *position starts at 0. NULL at the end. */
static inline PyObject *fj_instance_next(const fj_instance *view, Py_ssize_t *position) {
    PyObject *key = NULL;
    if (view->dict) return PyDict_Next(view->dict, position, &key, NULL) ? key : NULL;
    if (*position >= view->size) return NULL;
    key = DK_UNICODE_ENTRIES(view->keys)[view->order[view->direction * *position]].me_key;
    ++*position;
    return key;
}

#endif
