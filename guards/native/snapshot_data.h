/* What a snapshot is made of. */
#ifndef FRAMEJIT_SNAPSHOT_DATA_H
#define FRAMEJIT_SNAPSHOT_DATA_H
#include "program.h"

#include "dict_watch.h"

/* A container and the steps that read it. */
typedef struct {
    int32_t first, final; /* a list through next_step, by index among the stable steps */
    uint64_t changed;
    PyTypeObject *type; /* borrowed, of a class's record */
    fj_watch *watch;
} Record;

/* A word in memory that stays as it is while nothing changes. */
typedef struct {
    const void *at;
    uint64_t expected;
    int32_t record; /* checked again if the word differs; -1: all records are */
    int32_t is_quick;
} Word;

typedef struct {
    Word *words;
    Py_ssize_t count, capacity;
} Words;

struct fj_snapshot {
    fj_snapshot *next;
    uint64_t changed; /* set by the event of any watched dictionary */
    int busy, dropped;
    Words all, quick; /* containers before what they hold; `quick` has those that no event covers,
                         compared at every call */
    Record **records;
    Py_ssize_t record_count, record_capacity;
    int32_t *next_step;
    PyObject **pins; /* strong: constants that were compared by value, so that no other can take
                        their address */
    Py_ssize_t pin_count;
    PyObject *temps[];
};

/* The address of a word that never matches, so that the steps of its record run at every call. */
extern const uint64_t fj_never;

static inline uint64_t
read_word(const void *at)
{
    uint64_t word;
    memcpy(&word, at, sizeof word);
    return word;
}

/* Fills a snapshot, whose temps are those of the run: 0, or -1 (without an exception) where it
 * cannot be made. The caller frees it in both cases. */
int fj_build_snapshot(Program *program, fj_snapshot *snapshot);

#endif
