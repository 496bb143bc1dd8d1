/* See tensor_layout.h; the calibration is layout.py's. */
#include "tensor_layout.h"

#include <string.h>

static struct {
    Py_ssize_t impl, keys, dtype, device, sizes, inline_dims, storage_offset, autograd,
        leaf_requires, storage, data; /* the last two: -1 where unknown */
    _Bool (*requires_grad)(const void *impl);
    uint64_t plain_keys;
    PyTypeObject *tensor, *parameter; /* strong */
} layout;
static int calibrated;

static inline uint64_t
read_u64(const char *at)
{
    uint64_t v;
    memcpy(&v, at, sizeof v);
    return v;
}
static inline uint32_t
read_u32(const char *at)
{
    uint32_t v;
    memcpy(&v, at, sizeof v);
    return v;
}
static inline uint16_t
read_u16(const char *at)
{
    uint16_t v;
    memcpy(&v, at, sizeof v);
    return v;
}

static inline const char *
impl_of(PyObject *object)
{
    return (const char *)(uintptr_t)read_u64((const char *)object + layout.impl);
}

/* dim sizes and, `*strides` apart, as many strides. */
static inline const int64_t *
sizes_of(const char *impl, int64_t dim, Py_ssize_t *strides)
{
    const char *at = impl + layout.sizes + 8;
    if (dim <= layout.inline_dims) {
        *strides = layout.inline_dims;
        return (const int64_t *)at;
    }
    *strides = dim;
    return (const int64_t *)(uintptr_t)read_u64(at);
}

/* The common cases of requires_grad(): no autograd metadata, or its flag is set. For all others,
 * views and results, the method is asked for. */
static inline int
requires_grad_as(const char *impl, int expected)
{
    const char *autograd = (const char *)(uintptr_t)read_u64(impl + layout.autograd);
    if (expected ? autograd != NULL && autograd[layout.leaf_requires] == 1 : autograd == NULL)
        return 1;
    return layout.requires_grad(impl) == expected;
}

static inline int
numbers_match(const int64_t *expected, const int64_t *found, int dim)
{
    for (int i = 0; i < dim; i++)
        if (expected[i] != found[i] && expected[i] != FJ_ANY)
            return 0;
    return 1;
}

/* All numbers of up to 5 dimensions without a branch between them. */
static inline int
few_numbers_equal(const int64_t *want, const int64_t *sizes, const int64_t *strides, int dim)
{
    int64_t differ = 0;
    switch (dim) {
    case 5: differ |= (want[4] ^ sizes[4]) | (want[dim + 4] ^ strides[4]); /* fall through */
    case 4: differ |= (want[3] ^ sizes[3]) | (want[dim + 3] ^ strides[3]); /* fall through */
    case 3: differ |= (want[2] ^ sizes[2]) | (want[dim + 2] ^ strides[2]); /* fall through */
    case 2: differ |= (want[1] ^ sizes[1]) | (want[dim + 1] ^ strides[1]); /* fall through */
    case 1: differ |= (want[0] ^ sizes[0]) | (want[dim + 0] ^ strides[0]); /* fall through */
    default: return differ == 0;
    }
}

int
fj_tensor_matches(const fj_tensor_facts *facts, PyObject *object)
{
    if (Py_TYPE(object) != facts->type || !calibrated)
        return 0;
    const char *impl = impl_of(object);
    if (impl == NULL || read_u64(impl + layout.keys) != facts->keys)
        return 0; /* only with these keys are the other fields valid */
    if (read_u16(impl + layout.dtype) != facts->dtype ||
        read_u16(impl + layout.device) != facts->device)
        return 0;
    int64_t dim = (int64_t)read_u64(impl + layout.sizes);
    if (dim != facts->dim)
        return 0;
    Py_ssize_t strides;
    const int64_t *sizes = sizes_of(impl, dim, &strides);
    if (facts->exact && facts->dim <= 5) {
        if (!few_numbers_equal(facts->numbers, sizes, sizes + strides, facts->dim))
            return 0;
    }
    else if (!numbers_match(facts->numbers, sizes, facts->dim) ||
             !numbers_match(facts->numbers + facts->dim, sizes + strides, facts->dim)) {
        return 0;
    }
    return requires_grad_as(impl, facts->requires_grad);
}

/* Of exact facts, where dtype and device lie side by side: `dim` is a constant wherever this is
 * expanded, and all that a tensor tells is compared without a branch. The words read here lie in
 * the TensorImpl itself, whatever the keys say of the tensor. */
static inline __attribute__((always_inline)) Py_ssize_t
match_exactly(const fj_tensor_facts *facts, const uint16_t *at, PyObject *const *temps,
              Py_ssize_t count, const int dim)
{
    const Py_ssize_t keys = layout.keys, dtype = layout.dtype, sizes = layout.sizes + 8,
                     strides = sizes + 8 * layout.inline_dims;
    const uint32_t codes = facts->dtype | (uint32_t)facts->device << 16;
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *object = temps[at[i]];
        if (Py_TYPE(object) != facts->type)
            return i;
        const char *impl = impl_of(object);
        if (impl == NULL)
            return i;
        uint64_t differ =
            (read_u64(impl + keys) ^ facts->keys) | (read_u64(impl + layout.sizes) ^ dim);
        differ |= read_u32(impl + dtype) ^ codes;
        for (int d = 0; d < dim; d++) {
            differ |= read_u64(impl + sizes + 8 * d) ^ (uint64_t)facts->numbers[d];
            differ |= read_u64(impl + strides + 8 * d) ^ (uint64_t)facts->numbers[dim + d];
        }
        if (differ || !requires_grad_as(impl, facts->requires_grad))
            return i;
    }
    return count;
}

static Py_ssize_t
match_one_by_one(const fj_tensor_facts *facts, const uint16_t *at, PyObject *const *temps,
                 Py_ssize_t count)
{
    Py_ssize_t i = 0;
    while (i < count && fj_tensor_matches(facts, temps[at[i]]))
        i++;
    return i;
}

Py_ssize_t
fj_tensors_match(const fj_tensor_facts *facts, const uint16_t *at, PyObject *const *temps,
                 Py_ssize_t count)
{
    if (!calibrated)
        return 0;
    switch (facts->exact && layout.device == layout.dtype + 2 ? facts->dim : UINT8_MAX) {
    case 0: return match_exactly(facts, at, temps, count, 0);
    case 1: return match_exactly(facts, at, temps, count, 1);
    case 2: return match_exactly(facts, at, temps, count, 2);
    case 3: return match_exactly(facts, at, temps, count, 3);
    case 4: return match_exactly(facts, at, temps, count, 4);
    case 5: return match_exactly(facts, at, temps, count, 5);
    default: return match_one_by_one(facts, at, temps, count);
    }
}

int
fj_tensor_facts_equal(const fj_tensor_facts *one, const fj_tensor_facts *other)
{
    return one->type == other->type && one->keys == other->keys && one->dtype == other->dtype &&
           one->device == other->device && one->requires_grad == other->requires_grad &&
           one->dim == other->dim &&
           memcmp(one->numbers, other->numbers, 2 * one->dim * sizeof *one->numbers) == 0;
}

int
fj_tensor_read(PyObject *object, fj_tensor_number what, Py_ssize_t index, int64_t *number)
{
    if (!calibrated || (Py_TYPE(object) != layout.tensor && Py_TYPE(object) != layout.parameter))
        return -1;
    const char *impl = impl_of(object);
    if (impl == NULL || (read_u64(impl + layout.keys) & ~layout.plain_keys))
        return -1;
    if (what == FJ_STORAGE_OFFSET) {
        *number = (int64_t)read_u64(impl + layout.storage_offset);
        return 1;
    }
    int64_t dim = (int64_t)read_u64(impl + layout.sizes);
    if (index < 0)
        index += dim;
    if (index < 0 || index >= dim)
        return 0;
    Py_ssize_t strides;
    const int64_t *sizes = sizes_of(impl, dim, &strides);
    *number = sizes[what == FJ_SIZE ? index : strides + index];
    return 1;
}

int
fj_tensor_window(PyObject *object, fj_window *window)
{
    if (!calibrated || layout.storage < 0 ||
        (Py_TYPE(object) != layout.tensor && Py_TYPE(object) != layout.parameter))
        return 0;
    const char *impl = impl_of(object);
    if (impl == NULL || (read_u64(impl + layout.keys) & ~layout.plain_keys))
        return 0;
    int64_t dim = (int64_t)read_u64(impl + layout.sizes);
    if (dim < 0 || dim > UINT8_MAX)
        return 0;
    Py_ssize_t strides;
    window->sizes = sizes_of(impl, dim, &strides);
    window->strides = window->sizes + strides;
    window->dims = (int)dim;
    window->offset = (int64_t)read_u64(impl + layout.storage_offset);
    window->storage = (uintptr_t)read_u64(impl + layout.storage);
    window->data =
        window->storage ? (uintptr_t)read_u64((const char *)window->storage + layout.data) : 0;
    return 1;
}

/* ---- facts from Python ---- */

static int
read_numbers(PyObject *numbers, int64_t *into)
{
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(numbers); i++) {
        PyObject *number = PyTuple_GET_ITEM(numbers, i);
        into[i] = number == Py_None ? FJ_ANY : PyLong_AsLongLong(number);
        if (into[i] == -1 && PyErr_Occurred())
            return -1;
    }
    return 0;
}

fj_tensor_facts *
fj_tensor_facts_new(PyObject *from)
{
    PyObject *type, *sizes, *strides;
    unsigned long long keys;
    unsigned short dtype, device;
    int requires_grad;
    if (!PyTuple_Check(from) ||
        !PyArg_ParseTuple(from, "O!KHHpO!O!", &PyType_Type, &type, &keys, &dtype, &device,
                          &requires_grad, &PyTuple_Type, &sizes, &PyTuple_Type, &strides)) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_TypeError, "tensor facts must be a tuple");
        return NULL;
    }
    Py_ssize_t dim = PyTuple_GET_SIZE(sizes);
    if (dim != PyTuple_GET_SIZE(strides) || dim > UINT8_MAX) {
        PyErr_SetString(PyExc_ValueError, "sizes and strides differ in number, or are too many");
        return NULL;
    }
    fj_tensor_facts *facts = PyMem_Malloc(sizeof *facts + 2 * dim * sizeof(int64_t));
    if (facts == NULL)
        return (fj_tensor_facts *)PyErr_NoMemory();
    *facts = (fj_tensor_facts){
        (PyTypeObject *)Py_NewRef(type), keys, dtype, device, requires_grad != 0, (uint8_t)dim};
    if (read_numbers(sizes, facts->numbers) < 0 ||
        read_numbers(strides, facts->numbers + dim) < 0) {
        fj_tensor_facts_free(facts);
        return NULL;
    }
    facts->exact = 1;
    for (Py_ssize_t i = 0; i < 2 * dim; i++)
        facts->exact &= facts->numbers[i] != FJ_ANY;
    return facts;
}

void
fj_tensor_facts_free(fj_tensor_facts *facts)
{
    if (facts == NULL)
        return;
    Py_CLEAR(facts->type);
    PyMem_Free(facts);
}

/* set_layout(None | the fields of layout.Layout in their order, then torch.Tensor and Parameter) */
static PyObject *
set_layout(PyObject *module, PyObject *from)
{
    calibrated = 0;
    if (from == Py_None)
        Py_RETURN_NONE;
    unsigned long long requires_grad, plain_keys;
    PyObject *tensor, *parameter;
    if (!PyArg_ParseTuple(from, "nnnnnnnnnnnKKO!O!", &layout.impl, &layout.keys, &layout.dtype,
                          &layout.device, &layout.sizes, &layout.inline_dims,
                          &layout.storage_offset, &layout.autograd, &layout.leaf_requires,
                          &layout.storage, &layout.data, &requires_grad, &plain_keys, &PyType_Type,
                          &tensor, &PyType_Type, &parameter))
        return NULL;
    layout.requires_grad = (_Bool (*)(const void *))(uintptr_t)requires_grad;
    layout.plain_keys = plain_keys;
    Py_XSETREF(layout.tensor, (PyTypeObject *)Py_NewRef(tensor));
    Py_XSETREF(layout.parameter, (PyTypeObject *)Py_NewRef(parameter));
    calibrated = 1;
    Py_RETURN_NONE;
}

static PyObject *
tensor_matches(PyObject *module, PyObject *args)
{
    PyObject *from, *object;
    if (!PyArg_ParseTuple(args, "OO", &from, &object))
        return NULL;
    fj_tensor_facts *facts = fj_tensor_facts_new(from);
    if (facts == NULL)
        return NULL;
    int matches = fj_tensor_matches(facts, object);
    fj_tensor_facts_free(facts);
    return PyBool_FromLong(matches);
}

static PyObject *
tensor_window(PyObject *module, PyObject *object)
{
    fj_window window;
    if (!fj_tensor_window(object, &window))
        Py_RETURN_NONE;
    return Py_BuildValue("KKLi", (unsigned long long)window.storage,
                         (unsigned long long)window.data, (long long)window.offset, window.dims);
}

PyMethodDef fj_tensor_methods[] = {
    {"set_layout", set_layout, METH_O, "set_layout(fields | None): the calibrated offsets."},
    {"tensor_matches", tensor_matches, METH_VARARGS,
     "tensor_matches(facts, object) -> bool, for the calibration."},
    {"tensor_window", tensor_window, METH_O,
     "tensor_window(object) -> (storage, its memory, offset in elements, dimensions), None where C "
     "cannot tell."},
    {NULL},
};
