/* See memory.h. The usual answer, that nothing overlaps, is cached by the addresses of the tensors:
 * a call whose tensors are where they were costs one comparison a tensor, and one that brings new
 * tensors compares only these with the others. */
#include "memory.h"

#include <stdlib.h>
#include <string.h>

#include "tensor_layout.h"

typedef struct {
    uint64_t low, high; /* first byte, and one past the last; both 0 for a tensor without memory */
    uint64_t storage;   /* the StorageImpl */
} Span;

struct fj_memory {
    Py_ssize_t count, written,
        history; /* the written tensors come first, of these the ones that gain a history */
    int apart;   /* nothing is expected to overlap */
    int known;   /* `last` holds the spans of a call in which the relation held */
    Span *now, *last;
    fj_window *windows;
    int64_t *itemsizes;
    uint8_t *alone;    /* by written tensor: is it compared with itself, too? */
    uint8_t *expected; /* written rows of `count` columns: does this pair overlap? NULL where none
                          does */
};

enum {
    FEW = 4096
}; /* pairs that are compared one by one; of more, those are that are neighbours by address */

static uint64_t
greatest_common_divisor(uint64_t a, uint64_t b)
{
    while (b) {
        uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* Whether steps along this dimension change the address. */
static inline int
moves(const fj_window *window, int dim)
{
    return window->sizes[dim] > 1 && window->strides[dim] > 0;
}

static Span
span_of(const fj_window *window, int64_t itemsize)
{
    Span span = {0, 0, (uint64_t)window->storage};
    int64_t reach = 1;
    for (int dim = 0; dim < window->dims; dim++) {
        if (window->sizes[dim] == 0)
            return span;
        reach += (window->sizes[dim] - 1) * window->strides[dim];
    }
    if (window->data == 0)
        return span;
    span.low = window->data + (uint64_t)(window->offset * itemsize);
    span.high = span.low + (uint64_t)(reach * itemsize);
    return span;
}

/* The bytes that dimensions with strides below `cut` bytes span; `period` becomes the divisor of
 * the other strides, too. */
static int64_t
block(const fj_window *window, int64_t itemsize, int64_t cut, uint64_t *period)
{
    int64_t bytes = itemsize;
    for (int dim = 0; dim < window->dims; dim++) {
        if (!moves(window, dim))
            continue;
        int64_t stride = window->strides[dim] * itemsize;
        if (stride < cut)
            bytes += (window->sizes[dim] - 1) * stride;
        else
            *period = greatest_common_divisor(*period, (uint64_t)stride);
    }
    return bytes;
}

/* overlap.py's are_interleaved, for each cut. Called for spans that overlap. */
static int
are_interleaved(const fj_memory *memory, Py_ssize_t one, Py_ssize_t other)
{
    Py_ssize_t whose[] = {one, other};
    for (int side = 0; side < 2; side++) {
        const fj_window *window = &memory->windows[whose[side]];
        for (int dim = 0; dim < window->dims; dim++) {
            if (!moves(window, dim))
                continue;
            int64_t cut = window->strides[dim] * memory->itemsizes[whose[side]];
            uint64_t period = 0;
            int64_t mine = block(&memory->windows[one], memory->itemsizes[one], cut, &period);
            int64_t theirs = block(&memory->windows[other], memory->itemsizes[other], cut, &period);
            uint64_t low = memory->now[one].low, high = memory->now[other].low;
            uint64_t distance =
                high >= low ? (high - low) % period : (period - (low - high) % period) % period;
            if (distance >= (uint64_t)mine && period - distance >= (uint64_t)theirs)
                return 1;
        }
    }
    return 0;
}

static inline int
spans_overlap(const Span *one, const Span *other)
{
    return one->low < other->high && other->low < one->high;
}

static int
overlap(const fj_memory *memory, Py_ssize_t one, Py_ssize_t other)
{
    return spans_overlap(&memory->now[one], &memory->now[other]) &&
           !are_interleaved(memory, one, other);
}

/* overlap.py's may_repeat: strides in ascending order, each at least what the smaller ones span. */
static int
overlaps_itself(const fj_memory *memory, Py_ssize_t one)
{
    const fj_window *window = &memory->windows[one];
    if (memory->now[one].low == memory->now[one].high)
        return 0;
    int64_t reach = 1;
    uint64_t seen[4] = {0, 0, 0, 0}; /* a bit a dimension, of at most 255 */
    for (;;) {
        int next = -1;
        for (int dim = 0; dim < window->dims; dim++)
            if (window->sizes[dim] > 1 && !(seen[dim >> 6] >> (dim & 63) & 1) &&
                (next < 0 || window->strides[dim] < window->strides[next] ||
                 (window->strides[dim] == window->strides[next] &&
                  window->sizes[dim] < window->sizes[next])))
                next = dim;
        if (next < 0)
            return 0;
        if (window->strides[next] < reach)
            return 1;
        reach += (window->sizes[next] - 1) * window->strides[next];
        seen[next >> 6] |= 1ull << (next & 63);
    }
}

static int
same_storage(const fj_memory *memory, Py_ssize_t one, Py_ssize_t other)
{
    return memory->now[one].storage == memory->now[other].storage;
}

/* ---- where nothing is expected to overlap ---- */

/* Whether `one` overlaps nothing that it must not overlap. *touching: the spans of some interleave.
 */
static int
is_apart(const fj_memory *memory, Py_ssize_t one, int *touching)
{
    const Span span = memory->now[one];
    Py_ssize_t end = one < memory->written ? memory->count : memory->written;
    for (Py_ssize_t other = 0; other < end; other++) {
        if (!spans_overlap(&span, &memory->now[other]) || other == one)
            continue;
        if (!are_interleaved(memory, one, other))
            return 0;
        *touching = 1;
    }
    return 1;
}

typedef struct {
    uint64_t low, high;
    int written;
} Placed;

static int
by_address(const void *one, const void *other)
{
    uint64_t a = ((const Placed *)one)->low, b = ((const Placed *)other)->low;
    return (a > b) - (a < b);
}

/* Whether no span overlaps that of a written tensor: one sweep in the order of the addresses. */
static int
all_spans_apart(const fj_memory *memory)
{
    Placed *placed = PyMem_Malloc(memory->count * sizeof *placed);
    if (placed == NULL)
        return 0; /* no memory: compared pair by pair */
    Py_ssize_t count = 0;
    for (Py_ssize_t i = 0; i < memory->count; i++)
        if (memory->now[i].low < memory->now[i].high)
            placed[count++] =
                (Placed){memory->now[i].low, memory->now[i].high, i < memory->written};
    qsort(placed, count, sizeof *placed, by_address);
    uint64_t reached = 0, reached_by_written = 0;
    int apart = 1;
    for (Py_ssize_t i = 0; i < count && apart; i++) {
        apart = placed[i].low >= (placed[i].written ? reached : reached_by_written);
        if (placed[i].high > reached)
            reached = placed[i].high;
        if (placed[i].written && placed[i].high > reached_by_written)
            reached_by_written = placed[i].high;
    }
    PyMem_Free(placed);
    return apart;
}

static int
nothing_overlaps(fj_memory *memory)
{
    Py_ssize_t moved = memory->count;
    int touching = 0;
    if (memory->known) {
        moved = 0;
        for (Py_ssize_t i = 0; i < memory->count; i++)
            moved += memcmp(&memory->now[i], &memory->last[i], sizeof(Span)) != 0;
        if (moved == 0)
            return 1;
    }
    for (Py_ssize_t one = 0; one < memory->history; one++)
        for (Py_ssize_t other = 0; other < memory->count; other++)
            if (other != one && same_storage(memory, one, other))
                return 0;
    if (moved * memory->count <= FEW || !all_spans_apart(memory))
        for (Py_ssize_t i = 0; i < memory->count; i++)
            if ((!memory->known || memcmp(&memory->now[i], &memory->last[i], sizeof(Span)) != 0) &&
                !is_apart(memory, i, &touching))
                return 0;
    Span *last = memory->last;
    memory->last = memory->now;
    memory->now = last;
    memory->known = !touching; /* spans do not show which elements interleave */
    return 1;
}

/* ---- in general ---- */

static int
all_as_expected(const fj_memory *memory)
{
    for (Py_ssize_t one = 0; one < memory->written; one++)
        for (Py_ssize_t other = one + 1; other < memory->count; other++) {
            int found = overlap(memory, one, other) ||
                        (one < memory->history && same_storage(memory, one, other));
            if (found != memory->expected[one * memory->count + other])
                return 0;
        }
    return 1;
}

static int
alone_as_expected(const fj_memory *memory)
{
    for (Py_ssize_t one = 0; one < memory->written; one++) {
        int expected = memory->expected ? memory->expected[one * memory->count + one] : 0;
        if (memory->alone[one] && overlaps_itself(memory, one) != expected)
            return 0;
    }
    return 1;
}

int
fj_memory_holds(fj_memory *memory, PyObject *const *temps, const uint16_t *at)
{
    for (Py_ssize_t i = 0; i < memory->count; i++) {
        if (!fj_tensor_window(temps[at[i]], &memory->windows[i]))
            return 0;
        memory->now[i] = span_of(&memory->windows[i], memory->itemsizes[i]);
    }
    return alone_as_expected(memory) &&
           (memory->apart ? nothing_overlaps(memory) : all_as_expected(memory));
}

/* ---- from Python ---- */

static int
read_numbers(PyObject *from, int64_t *into, Py_ssize_t count)
{
    if (PyTuple_GET_SIZE(from) != count)
        return -1;
    for (Py_ssize_t i = 0; i < count; i++)
        into[i] = PyLong_AsLongLong(PyTuple_GET_ITEM(from, i));
    return PyErr_Occurred() ? -1 : 0;
}

/* Pairs of numbers of tensors, the first a written one. */
static int
read_pairs(fj_memory *memory, PyObject *from)
{
    memory->apart = PyTuple_GET_SIZE(from) == 0;
    if (memory->apart)
        return 0;
    if ((memory->expected = PyMem_Calloc(memory->written * memory->count + 1, 1)) == NULL)
        return -1;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(from); i++) {
        Py_ssize_t one, other;
        if (!PyArg_ParseTuple(PyTuple_GET_ITEM(from, i), "nn", &one, &other))
            return -1;
        if (one < 0 || one >= memory->written || other < one || other >= memory->count)
            return -1;
        memory->expected[one * memory->count + other] = 1;
    }
    return 0;
}

static int
read_alone(fj_memory *memory, PyObject *from)
{
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(from); i++) {
        Py_ssize_t one = PyLong_AsSsize_t(PyTuple_GET_ITEM(from, i));
        if (one < 0 || one >= memory->written)
            return -1;
        memory->alone[one] = 1;
    }
    return 0;
}

fj_memory *
fj_memory_new(PyObject *from, Py_ssize_t count)
{
    PyObject *itemsizes, *pairs, *alone;
    Py_ssize_t written, history;
    if (!PyTuple_Check(from) ||
        !PyArg_ParseTuple(from, "nnO!O!O!", &written, &history, &PyTuple_Type, &itemsizes,
                          &PyTuple_Type, &pairs, &PyTuple_Type, &alone)) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_TypeError, "a relation of memory is a tuple");
        return NULL;
    }
    fj_memory *memory = PyMem_Calloc(1, sizeof *memory);
    if (memory == NULL)
        return (fj_memory *)PyErr_NoMemory();
    *memory = (fj_memory){.count = count, .written = written, .history = history};
    memory->now = PyMem_Calloc(count + 1, sizeof(Span));
    memory->last = PyMem_Calloc(count + 1, sizeof(Span));
    memory->windows = PyMem_Calloc(count + 1, sizeof(fj_window));
    memory->itemsizes = PyMem_Calloc(count + 1, sizeof(int64_t));
    memory->alone = PyMem_Calloc(count + 1, 1);
    int made = memory->now && memory->last && memory->windows && memory->itemsizes && memory->alone;
    int sound = written >= 0 && written <= count && history >= 0 && history <= written;
    if (made && sound && read_numbers(itemsizes, memory->itemsizes, count) == 0 &&
        read_pairs(memory, pairs) == 0 && read_alone(memory, alone) == 0)
        return memory;
    if (!made)
        PyErr_NoMemory();
    else if (!PyErr_Occurred())
        PyErr_SetString(PyExc_ValueError,
                        "a relation of memory that names tensors which are not there");
    fj_memory_free(memory);
    return NULL;
}

void
fj_memory_free(fj_memory *memory)
{
    if (memory == NULL)
        return;
    PyMem_Free(memory->now);
    PyMem_Free(memory->last);
    PyMem_Free(memory->windows);
    PyMem_Free(memory->itemsizes);
    PyMem_Free(memory->alone);
    PyMem_Free(memory->expected);
    PyMem_Free(memory);
}
