/* A cheap fingerprint of torch's modes, and the last fingerprint with which a TorchState held or
 * not. */
#ifndef FRAMEJIT_TORCH_STATE_H
#define FRAMEJIT_TORCH_STATE_H
#include <Python.h>
#include <stdint.h>

typedef struct {
    uint64_t keys[2]; /* thread-local included and excluded dispatch keys, as stored */
    int64_t function_modes, dispatch_modes, saved_tensor_hooks;
    int32_t functions_disabled;
    int8_t grad, autocast_cpu, autocast_cuda, autocast_cache, default_dtype, deterministic[3],
        padding[4];
} fj_fingerprint;

typedef struct {
    fj_fingerprint holds, fails;
    uint8_t knows_holds, knows_fails;
    PyObject *modes; /* both stacks of modes under `holds`, a tuple, compared by identity; NULL for
                        none */
} fj_state_memory;

/* Does `state.holds()`? Asks Python only under a fingerprint not seen last time. Never raises. */
int fj_torch_state_holds(PyObject *state, fj_state_memory *memory);

extern PyMethodDef fj_state_methods[];

#endif
