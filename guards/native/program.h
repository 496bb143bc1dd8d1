/* A guard program as C sees it: steps in sections, see section.py, and the snapshots that let it
 * skip the stable ones. */
#ifndef FRAMEJIT_PROGRAM_H
#define FRAMEJIT_PROGRAM_H
#include "object_compat.h"

#include "memory.h"
#include "relation.h"
#include "tensor_layout.h"
#include "torch_state.h"

/* The operations of a step: loads, then checks. */
/* clang-format off */
#define OPS(X) \
    X(SLOT) X(CLOSURE) X(GLOBALS) X(BUILTINS) X(CONSTANT) X(CELL) X(ATTR) \
    X(INSTANCE_DICT) X(INSTANCE_ITEM) X(TYPE_OF) X(CLASS_DICT) X(CLASS_ATTRIBUTE) X(MRO_ITEM) \
    X(DICT_ITEM) X(DICT_KEY) X(ITEM_AT_KEY) X(HAS_KEY) X(SEQUENCE_ITEM) X(ITERATOR_ITEM) X(CALL) \
    X(TENSOR_SIZE) X(TENSOR_STRIDE) X(TENSOR_STORAGE_OFFSET) X(FUNCTION_FIELD) X(PROPERTY_FIELD) \
    X(TYPE) X(IS) X(EQUALS) X(LENGTH) X(KEYS) X(ABSENT) X(PRESENT) \
    X(INSTANCE_LENGTH) X(INSTANCE_KEYS) X(INSTANCE_ABSENT) X(INSTANCE_PRESENT) \
    X(TENSOR) X(SAME) X(DISTINCT) X(MEMORY) X(TORCH_STATE) X(SHAPE) X(RELATION) X(PYTHON) \
    X(EXACTLY_LEFT) X(AT_LEAST_LEFT)
/* clang-format on */

typedef enum {
#define X(name) OP_##name,
    OPS(X)
#undef X
        OP_COUNT
} Op;

typedef struct {
    uint8_t op;
    uint8_t keep;
    uint16_t dst, src; /* temps */
    uint16_t
        uses;     /* how many temps the check reads; where more than one, `others` lists them all */
    int32_t hint; /* where an instance attribute was found last */
    PyObject *object;  /* strong: the key, the expected object, the callable ... */
    Py_ssize_t number; /* index, length, dimension; how many of a DISTINCT are compared with all */
    union {
        Py_hash_t hash; /* of object, where it is a key */
        fj_tensor_facts *tensor;
        fj_state_memory *state;
        struct {
            uint16_t *others;
            union {
                fj_relation *relation;
                fj_memory *memory;
            };
        };
    };
} Step;

/* Consecutive tensors with equal expected facts. */
typedef struct {
    const fj_tensor_facts *facts; /* of the first one's step */
    Py_ssize_t first, count;      /* in held_temps */
} Alike;

typedef struct fj_snapshot fj_snapshot;

typedef struct {
    PyObject_HEAD
    Py_ssize_t count;
    Step *steps;
    Py_ssize_t stable, held, last; /* first step of the sections STABLE, HELD and LAST */
    uint16_t *held_temps;          /* the checked temps, in the order of the checks */
    Alike *alike;
    Py_ssize_t alike_count;
    Py_ssize_t temps, owned; /* how many entries a run needs */
    Py_ssize_t
        keeps; /* how many stable objects must be held while later steps run, and their temps */
    uint16_t *kept;
    Py_ssize_t fresh; /* temps from here on belong to stable steps, one each */
    Py_ssize_t lifts, anchor_count;
    uint16_t *lifted, *anchors;
    fj_snapshot *snapshots; /* most recently used first */
    Py_ssize_t snapshot_count;
    unsigned long long snapshots_taken, reuses; /* taken, and calls that skipped the stable steps */
    unsigned long long passed;                  /* calls that took none because it did not pay */
} Program;

typedef struct {
    PyObject *const *slots;
    Py_ssize_t nslots;
    PyObject *function;
} Frame;

#define PASSED (-1)

/* Run steps [from, to): the index of the one that failed, or PASSED. References to drop afterwards
 * go into `owns` from *owned on. Never raises. */
Py_ssize_t fj_run_steps(Program *program, Frame frame, PyObject **temps, PyObject **owns,
                        Py_ssize_t *owned, Py_ssize_t from, Py_ssize_t to);

/* As fj_run_steps for all of them; on success *lifted, where it is asked for and there is something
 * to lift, is a new tuple. */
Py_ssize_t fj_evaluate(Program *program, Frame frame, PyObject **lifted);

extern PyTypeObject fj_program_type;
extern PyObject *fj_unbound;   /* stands for NULL in a tuple of slots */
extern PyTypeObject *fj_deque; /* collections.deque, which has no C API of its own */

#endif
