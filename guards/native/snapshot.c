/* See snapshot.h. */
#include "snapshot.h"

#include "snapshot_data.h"

enum { MANY = 64, FEW = 16 };

PyObject **
fj_snapshot_temps(fj_snapshot *snapshot)
{
    return snapshot->temps;
}

/* ---- end of life ---- */

static void
free_snapshot(fj_snapshot *snapshot)
{
    for (Py_ssize_t i = 0; i < snapshot->record_count; i++) {
        Record *record = snapshot->records[i];
        if (record->watch) {
            fj_watch_end(record->watch);
            PyMem_Free(record->watch->keys);
            PyMem_Free(record->watch);
        }
        PyMem_Free(record);
    }
    PyMem_Free(snapshot->records);
    PyMem_Free(snapshot->all.words);
    PyMem_Free(snapshot->quick.words);
    PyMem_Free(snapshot->next_step);
    while (snapshot->pin_count)
        Py_DECREF(snapshot->pins[--snapshot->pin_count]);
    PyMem_Free(snapshot->pins);
    PyMem_Free(snapshot);
}

/* Frees a snapshot that is no longer in the list, now or when it is released. */
static void
drop(fj_snapshot *snapshot)
{
    if (snapshot->busy)
        snapshot->dropped = 1;
    else
        free_snapshot(snapshot);
}

void
fj_drop_snapshots(Program *program)
{
    fj_snapshot *snapshot = program->snapshots;
    program->snapshots = NULL;
    program->snapshot_count = 0;
    while (snapshot) {
        fj_snapshot *next = snapshot->next;
        drop(snapshot);
        snapshot = next;
    }
}

int
fj_traverse_snapshots(Program *program, visitproc visit, void *arg)
{
    for (fj_snapshot *snapshot = program->snapshots; snapshot; snapshot = snapshot->next)
        for (Py_ssize_t i = 0; i < snapshot->pin_count; i++)
            Py_VISIT(snapshot->pins[i]);
    return 0;
}

/* ---- taking one ---- */

/* Not where it does not pay: anchors that are others at every call, state that changes at every
 * call. Now and then it is tried again. */
static int
is_worth_a_snapshot(const Program *program)
{
    return program->snapshots_taken < FEW || program->reuses >= program->snapshots_taken ||
           (program->snapshots_taken + program->passed) % MANY == 0;
}

static void
drop_oldest(Program *program)
{
    fj_snapshot **place = &program->snapshots;
    while ((*place)->next)
        place = &(*place)->next;
    fj_snapshot *oldest = *place;
    *place = NULL;
    program->snapshot_count--;
    drop(oldest);
}

void
fj_take_snapshot(Program *program, PyObject *const *temps)
{
    if (!is_worth_a_snapshot(program)) {
        program->passed++;
        return;
    }
    fj_snapshot *snapshot = PyMem_Calloc(1, sizeof *snapshot + program->temps * sizeof(PyObject *));
    if (snapshot == NULL)
        return;
    memcpy(snapshot->temps, temps, program->temps * sizeof *temps);
    if (fj_build_snapshot(program, snapshot) < 0) {
        free_snapshot(snapshot);
        return;
    }
    if (program->snapshot_count == MANY)
        drop_oldest(program);
    snapshot->next = program->snapshots;
    program->snapshots = snapshot;
    program->snapshot_count++;
    program->snapshots_taken++;
}

/* ---- checking one ---- */

/* Whether the steps of a record find what they found before. */
static int
steps_hold(Program *program, Frame frame, fj_snapshot *snapshot, const Record *record)
{
    for (int32_t at = record->first; at >= 0; at = snapshot->next_step[at]) {
        Py_ssize_t index = program->stable + at, owned = 0;
        const Step *step = &program->steps[index];
        PyObject *before = snapshot->temps[step->dst], *own;
        if (fj_run_steps(program, frame, snapshot->temps, &own, &owned, index, index + 1) != PASSED)
            return 0;
        if (owned)
            Py_DECREF(own); /* the container still holds it */
        if (step->op < OP_TYPE && snapshot->temps[step->dst] != before)
            return 0;
    }
    return 1;
}

static int
record_holds(Program *program, Frame frame, fj_snapshot *snapshot, Word *word)
{
    if (word->record < 0)
        return 0;
    Record *record = snapshot->records[word->record];
    if (record->watch && record->watch->dict == NULL)
        return 0; /* the dictionary was freed */
    record->changed = 0;
    if (!steps_hold(program, frame, snapshot, record))
        return 0;
    if (record->type && !fj_type_version(record->type))
        return 0;
    if (word->at != &fj_never)
        word->expected = read_word(word->at);
    return 1;
}

/* Compares all words in order: after a change of a container, what it held may have been freed. */
static int
all_hold(Program *program, Frame frame, fj_snapshot *snapshot)
{
    snapshot->changed = 0;
    Word *quick = snapshot->quick.words;
    for (Word *word = snapshot->all.words, *end = word + snapshot->all.count; word < end; word++) {
        if (read_word(word->at) != word->expected && !record_holds(program, frame, snapshot, word))
            return 0;
        if (word->is_quick)
            *quick++ = *word;
    }
    return 1;
}

static int
holds(Program *program, Frame frame, fj_snapshot *snapshot)
{
    if (snapshot->changed)
        return all_hold(program, frame, snapshot);
    for (Py_ssize_t i = 0; i < snapshot->quick.count; i++) {
        Word *word = &snapshot->quick.words[i];
        if (read_word(word->at) == word->expected)
            continue;
        if (word->at != &fj_never)
            return all_hold(program, frame, snapshot);
        if (!record_holds(program, frame, snapshot, word))
            return 0;
    }
    return 1;
}

static int
has_anchors(const Program *program, const fj_snapshot *snapshot, PyObject *const *temps)
{
    for (Py_ssize_t i = 0; i < program->anchor_count; i++)
        if (snapshot->temps[program->anchors[i]] != temps[program->anchors[i]])
            return 0;
    return 1;
}

fj_snapshot *
fj_find_snapshot(Program *program, Frame frame, PyObject *const *temps)
{
    fj_snapshot **place = &program->snapshots, *snapshot;
    while ((snapshot = *place) && (snapshot->busy || !has_anchors(program, snapshot, temps)))
        place = &snapshot->next;
    if (snapshot == NULL)
        return NULL;
    *place = snapshot->next;
    snapshot->busy = 1;
    memcpy(snapshot->temps, temps, program->fresh * sizeof *temps);
    int held = holds(program, frame, snapshot);
    if (!held) {
        program->snapshot_count--;
        snapshot->busy = 0;
        drop(snapshot);
        return NULL;
    }
    snapshot->next = program->snapshots;
    program->snapshots = snapshot;
    program->reuses++;
    return snapshot;
}

Py_ssize_t
fj_snapshot_compared(const Program *program)
{
    return program->snapshots ? program->snapshots->quick.count : 0;
}

void
fj_release_snapshot(Program *program, fj_snapshot *snapshot)
{
    (void)program;
    snapshot->busy = 0;
    if (snapshot->dropped)
        free_snapshot(snapshot);
}
