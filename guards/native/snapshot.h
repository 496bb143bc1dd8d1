/* A snapshot of what the stable steps of a guard program found, and the words of memory that show
 * whether it is still valid. While it is, the stable steps do not run.
 *
 * A dictionary is unchanged if its watcher raised no event (3.12 and later) or its version tag is
 * the same (3.11); a class if its version is the same; the class and the dictionary of an object if
 * the two pointers in it are the same. Where none of this exists (lists, sets, attributes whose
 * stores raise no event) the steps that read the container run at every call. After a change only
 * the steps that read that container run again, and the snapshot stays valid if they find what they
 * found before. A snapshot holds no references to what it found, except to constants. */
#ifndef FRAMEJIT_SNAPSHOT_H
#define FRAMEJIT_SNAPSHOT_H
#include "program.h"

/* The valid snapshot for these anchors, or NULL; the caller releases it. `temps` has the fresh
 * ones. */
fj_snapshot *fj_find_snapshot(Program *program, Frame frame, PyObject *const *temps);
void fj_release_snapshot(Program *program, fj_snapshot *snapshot);

/* Its temps: the stable ones filled, the fresh ones for the caller to fill. */
PyObject **fj_snapshot_temps(fj_snapshot *snapshot);

/* Stores what the stable steps found. Does nothing where there is no memory for it. */
void fj_take_snapshot(Program *program, PyObject *const *temps);

/* How many words of memory a hit of the last used snapshot compares. */
Py_ssize_t fj_snapshot_compared(const Program *program);

int fj_traverse_snapshots(Program *program, visitproc visit, void *arg);
void fj_drop_snapshots(Program *program);

#endif
