/* A relation between the memory of several tensors: which of them overlap. kinds/memory.py says
 * what it means, overlap.py how two tensors are compared. */
#ifndef FRAMEJIT_MEMORY_H
#define FRAMEJIT_MEMORY_H
#include <Python.h>
#include <stdint.h>

typedef struct fj_memory fj_memory;

/* From the tuple that kinds/memory.py encodes, for `count` tensors; NULL with an exception. */
fj_memory *fj_memory_new(PyObject *from, Py_ssize_t count);
void fj_memory_free(fj_memory *memory);

/* Do temps[at[0]], temps[at[1]] ... overlap as expected? Tensors that C cannot read mean no. Runs
 * no Python code. */
int fj_memory_holds(fj_memory *memory, PyObject *const *temps, const uint16_t *at);

#endif
