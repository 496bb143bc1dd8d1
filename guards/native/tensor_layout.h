/* Facts of a plain tensor, read from the C++ object through offsets that layout.py found by
 * experiment. */
#ifndef FRAMEJIT_TENSOR_LAYOUT_H
#define FRAMEJIT_TENSOR_LAYOUT_H
#include <Python.h>
#include <stdint.h>

#define FJ_ANY INT64_MIN /* a size or stride that may be anything */

/* What a TENSOR guard expects: a TensorSpec with dtype and device as torch's own numbers. */
typedef struct {
    PyTypeObject *type; /* strong */
    uint64_t keys;
    uint16_t dtype, device;
    uint8_t requires_grad, dim;
    uint8_t exact;     /* no number is FJ_ANY */
    int64_t numbers[]; /* dim sizes, then dim strides */
} fj_tensor_facts;

/* From (type, keys, dtype, device, requires_grad, sizes, strides); NULL with an exception. */
fj_tensor_facts *fj_tensor_facts_new(PyObject *facts);
void fj_tensor_facts_free(fj_tensor_facts *facts);

/* Is the object exactly such a tensor? Never raises. */
int fj_tensor_matches(const fj_tensor_facts *facts, PyObject *object);

/* Are the objects in temps[at[0]], temps[at[1]] ... all such tensors? The number of the first that
 * is not, `count` for none. */
Py_ssize_t fj_tensors_match(const fj_tensor_facts *facts, const uint16_t *at,
                            PyObject *const *temps, Py_ssize_t count);

/* Do they say the same? */
int fj_tensor_facts_equal(const fj_tensor_facts *one, const fj_tensor_facts *other);

typedef enum { FJ_SIZE, FJ_STRIDE, FJ_STORAGE_OFFSET } fj_tensor_number;

/* Read a number of a plain torch.Tensor or Parameter. 1: done; 0: there is no such dimension; -1:
 * not readable here. */
int fj_tensor_read(PyObject *object, fj_tensor_number what, Py_ssize_t dim, int64_t *number);

/* Where the elements of a tensor are. sizes and strides are the tensor's own numbers: valid until
 * something changes it. */
typedef struct {
    uintptr_t storage, data; /* the StorageImpl, and its memory; 0 without any */
    int64_t offset;          /* of the first element, in elements */
    const int64_t *sizes, *strides;
    int dims;
} fj_window;

/* Of a plain torch.Tensor or Parameter: 1. 0 for anything else, and where the calibration does not
 * know storages. */
int fj_tensor_window(PyObject *object, fj_window *window);

extern PyMethodDef fj_tensor_methods[];

#endif
