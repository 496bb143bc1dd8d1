/* What differs between CPython 3.11, 3.12 and 3.13 in objects and types; the only version tests of
 * guards/.
 *
 * An object's own attributes lie in a dictionary, or, until somebody asks for it, in a values array
 * of which the class knows the keys. A `fj_instance` views either without making the dictionary
 * (that would slow the user's object down). */
#ifndef FRAMEJIT_OBJECT_COMPAT_H
#define FRAMEJIT_OBJECT_COMPAT_H
#ifndef Py_BUILD_CORE
#define Py_BUILD_CORE 1
#endif
#include <Python.h>
#include <internal/pycore_dict.h>
#include <internal/pycore_object.h>
#include <stdint.h>

#include "constants.h"

#if PY_VERSION_HEX < 0x030B0000 || PY_VERSION_HEX >= 0x030E0000
#error "framejit knows CPython 3.11, 3.12 and 3.13"
#endif

#if PY_VERSION_HEX >= 0x030C0000
#define FJ_DICT_WATCHERS 1 /* dictionaries raise events when they change */
#endif

typedef struct {
    PyObject *dict;         /* borrowed; or NULL and: */
    PyDictKeysObject *keys; /* the class's shared keys, NULL if the object has no attributes */
    PyObject **values;      /* values[i] belongs to key i, NULL if absent */
    const uint8_t *order;   /* order[direction * n] is the index of the n-th attribute set */
    int direction;
    int size; /* how many are set */
    int can;  /* whether it may have a dictionary */
} fj_instance;

#if PY_VERSION_HEX >= 0x030D0000

static inline void
fj_inline_values(PyObject *object, fj_instance *view)
{
    view->dict = (PyObject *)_PyObject_GetManagedDict(object);
    if (view->dict || !(Py_TYPE(object)->tp_flags & Py_TPFLAGS_INLINE_VALUES))
        return;
    PyDictValues *values = _PyObject_InlineValues(object);
    if (!values->valid)
        return;
    view->keys = ((PyHeapTypeObject *)Py_TYPE(object))->ht_cached_keys;
    view->values = values->values;
    view->order = get_insertion_order_array(values);
    view->direction = 1;
    view->size = values->size;
}

#else

static inline void
fj_values_before(PyObject *object, PyDictValues *values, fj_instance *view)
{
    view->keys = ((PyHeapTypeObject *)Py_TYPE(object))->ht_cached_keys;
    view->values = values->values;
    view->size = ((uint8_t *)values)[-2];
    view->order = (uint8_t *)values - 3;
    view->direction = -1;
}

#if PY_VERSION_HEX >= 0x030C0000

static inline void
fj_inline_values(PyObject *object, fj_instance *view)
{
    PyDictOrValues either = *_PyObject_DictOrValuesPointer(object);
    if (!_PyDictOrValues_IsValues(either))
        view->dict = _PyDictOrValues_GetDict(either);
    else
        fj_values_before(object, _PyDictOrValues_GetValues(either), view);
}

#else

static inline void
fj_inline_values(PyObject *object, fj_instance *view)
{
    PyDictValues *values = *_PyObject_ValuesPointer(object);
    if (values == NULL)
        view->dict = *_PyObject_ManagedDictPointer(object);
    else
        fj_values_before(object, values, view);
}

#endif
#endif

static inline fj_instance
fj_instance_of(PyObject *object)
{
    fj_instance view = {0};
    if (Py_TYPE(object)->tp_flags & Py_TPFLAGS_MANAGED_DICT) {
        view.can = 1;
        fj_inline_values(object, &view);
    }
    else {
        PyObject **place = _PyObject_GetDictPtr(object);
        view.can = place != NULL;
        view.dict = place ? *place : NULL;
    }
    return view;
}

/* Where the object keeps the pointer to its dictionary; NULL if it has none, or none yet. */
static inline PyObject **
fj_dict_place(PyObject *object)
{
    PyObject **place;
    if (Py_TYPE(object)->tp_flags & Py_TPFLAGS_MANAGED_DICT) {
        if (fj_instance_of(object).dict == NULL)
            return NULL;
#if PY_VERSION_HEX >= 0x030D0000
        place = (PyObject **)&_PyObject_ManagedDictPointer(object)->dict;
#elif PY_VERSION_HEX >= 0x030C0000
        place = &_PyObject_DictOrValuesPointer(object)->dict;
#else
        place = _PyObject_ManagedDictPointer(object);
#endif
    }
    else {
        place = _PyObject_GetDictPtr(object);
    }
    return place && *place ? place : NULL;
}

/* Give the class a version, if it has none and there are any left; from then on a change of it, or
 * of a class it derives from, changes tp_version_tag. 0: none left. */
static inline int
fj_type_version(PyTypeObject *type)
{
#if PY_VERSION_HEX >= 0x030C0000
    return PyUnstable_Type_AssignVersionTag(type) && type->tp_version_tag != 0;
#else
    static PyObject *name;
    if (name == NULL && (name = PyUnicode_InternFromString("__class__")) == NULL)
        return PyErr_Clear(), 0;
    _PyType_Lookup(type, name); /* looking anything up gives it one */
    return (type->tp_flags & Py_TPFLAGS_VALID_VERSION_TAG) && type->tp_version_tag != 0;
#endif
}

/* Where a function keeps one of its parts; the numbers are section.py's FUNCTION_FIELDS. */
static inline PyObject **
fj_function_field(PyObject *function, Py_ssize_t number)
{
    PyFunctionObject *of = (PyFunctionObject *)function;
    PyObject **fields[] = {&of->func_code, &of->func_defaults, &of->func_kwdefaults,
                           &of->func_closure, &of->func_globals};
    return (size_t)number < sizeof fields / sizeof *fields ? fields[number] : NULL;
}

/* Where a property keeps one of its functions; the numbers are section.py's PROPERTY_FIELDS. */
static inline PyObject **
fj_property_field(PyObject *property, Py_ssize_t number)
{
    typedef struct { /* the first members of CPython's propertyobject, which no header shows */
        PyObject_HEAD
        PyObject *functions[3];
    } Property;
    return number >= 0 && number < 3 ? &((Property *)property)->functions[number] : NULL;
}

typedef struct { /* of a list or a tuple: CPython's own, as are the next ones; no header shows them
                  */
    PyObject_HEAD
    Py_ssize_t index;      /* -1 at the end, since 3.13 */
    PyVarObject *sequence; /* NULL at the end, but not always since 3.13 */
} fj_sequence_iterator;

typedef struct {
    PyObject_HEAD
    PyDictObject *dict; /* NULL at the end */
    Py_ssize_t used, position;
    PyObject *result;
    Py_ssize_t left;
} fj_dict_iterator;

static inline int
fj_is_dict_iterator(PyObject *iterator)
{
    return Py_IS_TYPE(iterator, &PyDictIterKey_Type) ||
           Py_IS_TYPE(iterator, &PyDictIterValue_Type) ||
           Py_IS_TYPE(iterator, &PyDictIterItem_Type);
}

/* How many items it would still give; -1 when it would raise on the way, as keys came or went. */
static inline Py_ssize_t
fj_dict_left(const fj_dict_iterator *of)
{
    if (of->dict == NULL)
        return 0;
    if (of->used != of->dict->ma_used)
        return -1;
    Py_ssize_t count = 0;
    for (Py_ssize_t at = of->position; PyDict_Next((PyObject *)of->dict, &at, NULL, NULL);
         count++) {
    }
    return count > of->left ? -1 : count;
}

/* How many items an iterator of a range, a list, a tuple (backwards, too) or a dictionary would
 * still give; -1 for any other object. These are CPython's own structs, which 3.11 shows in no
 * header. */
static inline Py_ssize_t
fj_remaining(PyObject *iterator)
{
    typedef struct {
        PyObject_HEAD
#if PY_VERSION_HEX < 0x030C0000
        long index;
#endif
        long start, step, length;
    } RangeIterator;
    if (Py_IS_TYPE(iterator, &PyRangeIter_Type)) {
#if PY_VERSION_HEX < 0x030C0000
        return ((RangeIterator *)iterator)->length - ((RangeIterator *)iterator)->index;
#else
        return ((RangeIterator *)iterator)->length;
#endif
    }
    if (fj_is_dict_iterator(iterator))
        return fj_dict_left((fj_dict_iterator *)iterator);
    const fj_sequence_iterator *of = (fj_sequence_iterator *)iterator;
    if (Py_IS_TYPE(iterator, &PyReversed_Type) && of->sequence && !PyTuple_CheckExact(of->sequence))
        return -1;
    if (Py_IS_TYPE(iterator, &PyListRevIter_Type) || Py_IS_TYPE(iterator, &PyReversed_Type))
        return of->sequence && of->sequence->ob_size > of->index ? of->index + 1 : 0;
    if (!Py_IS_TYPE(iterator, &PyListIter_Type) && !Py_IS_TYPE(iterator, &PyTupleIter_Type))
        return -1;
    return of->sequence && of->index >= 0 && of->sequence->ob_size > of->index
               ? of->sequence->ob_size - of->index
               : 0;
}

/* The dictionary of a class's own attributes; borrowed (the class, or for static types the
 * interpreter, holds it). */
static inline PyObject *
fj_type_dict(PyTypeObject *type)
{
#if PY_VERSION_HEX >= 0x030C0000
    PyObject *dict = PyType_GetDict(type);
    Py_XDECREF(dict);
    return dict;
#else
    return type->tp_dict;
#endif
}

/* ---- the same for all versions ---- */

/* Where a key of a dictionary was found last: entry number + 1; 0 not looked for yet, FJ_NO_HINT
 * when not worth it. */
#define FJ_NO_HINT (-1)
#define FJ_SCAN 64 /* entries to read when the hint is wrong */

/* The place of this very str among the entries of a dictionary whose keys are all str. */
static inline int32_t
fj_find_place(PyDictKeysObject *keys, PyObject *key, int32_t hint)
{
    const PyDictUnicodeEntry *entries = DK_UNICODE_ENTRIES(keys);
    if (hint > 0 && keys->dk_nentries > FJ_SCAN)
        return FJ_NO_HINT;
    for (Py_ssize_t i = 0; i < keys->dk_nentries && i < INT32_MAX - 1; i++)
        if (entries[i].me_key == key)
            return (int32_t)i + 1;
    return FJ_NO_HINT; /* an equal str, not this one */
}

/* dict.get(key) for an exact str or any other key of known hash: borrowed, or NULL. */
static inline PyObject *
fj_dict_item(PyObject *dict, PyObject *key, Py_hash_t hash, int32_t *hint)
{
    const PyDictObject *mapping = (PyDictObject *)dict;
    PyDictKeysObject *keys = mapping->ma_keys;
    int by_place = *hint != FJ_NO_HINT && keys->dk_kind != DICT_KEYS_GENERAL;
    if (by_place && *hint > 0 && *hint <= keys->dk_nentries) {
        const PyDictUnicodeEntry *entry = &DK_UNICODE_ENTRIES(keys)[*hint - 1];
        PyObject *value =
            mapping->ma_values ? mapping->ma_values->values[*hint - 1] : entry->me_value;
        if (entry->me_key == key && value != NULL)
            return value;
    }
    PyObject *value = _PyDict_GetItem_KnownHash(dict, key, hash);
    if (value == NULL) {
        if (PyErr_Occurred())
            PyErr_Clear();
    }
    else if (by_place &&
             keys == mapping->ma_keys) { /* unchanged, though the comparison may have run Python */
        *hint = fj_find_place(keys, key, *hint);
    }
    return value;
}

/* The attribute `name` (an exact str) in the object's own attributes, borrowed, or NULL. `hint`
 * remembers where the class keeps it. */
static inline PyObject *
fj_instance_item(PyObject *object, PyObject *name, Py_hash_t hash, int32_t *hint)
{
    fj_instance view = fj_instance_of(object);
    if (view.dict != NULL)
        return fj_dict_item(view.dict, name, hash, hint);
    if (view.keys == NULL || view.keys->dk_kind == DICT_KEYS_GENERAL)
        return NULL;
    const PyDictUnicodeEntry *entries = DK_UNICODE_ENTRIES(view.keys);
    Py_ssize_t known = view.keys->dk_nentries;
    if (*hint > 0 && *hint <= known && entries[*hint - 1].me_key == name)
        return view.values[*hint - 1];
    for (Py_ssize_t i = 0; i < known; i++)
        if (entries[i].me_key && fj_same_str(entries[i].me_key, name)) {
            *hint = (int32_t)i + 1;
            return view.values[i];
        }
    return NULL;
}

static inline Py_ssize_t
fj_instance_length(const fj_instance *view)
{
    return view->dict ? PyDict_GET_SIZE(view->dict) : view->size;
}

/* The next key in order of insertion, borrowed; *position starts at 0. NULL at the end. */
static inline PyObject *
fj_instance_next(const fj_instance *view, Py_ssize_t *position)
{
    PyObject *key = NULL;
    if (view->dict)
        return PyDict_Next(view->dict, position, &key, NULL) ? key : NULL;
    if (*position >= view->size)
        return NULL;
    key = DK_UNICODE_ENTRIES(view->keys)[view->order[view->direction * *position]].me_key;
    ++*position;
    return key;
}

#endif
