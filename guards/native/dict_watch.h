/* Flags that are set when a dictionary changes: CPython's dictionary watchers (3.12 and later),
 * filtered by key. */
#ifndef FRAMEJIT_DICT_WATCH_H
#define FRAMEJIT_DICT_WATCH_H
#include <Python.h>
#include <stdint.h>

/* One watch of one dictionary, in its owner's memory; the owner ends it before it frees that
 * memory. */
typedef struct fj_watch {
    PyObject *dict;  /* borrowed; NULL once the dictionary was freed */
    PyObject **keys; /* borrowed interned strings */
    Py_ssize_t key_count;
    int any_key;
    uint64_t bloom;
    uint64_t *changed, *owner_changed; /* set to 1 by an event */
    struct fj_watch *next, **at;
} fj_watch;

/* Whether this interpreter has dictionary watchers, and framejit got one. */
int fj_has_watchers(void);

/* 0, or -1 (without an exception) if the dictionary cannot be watched. The caller has set `keys`
 * and the pointers to flags. */
int fj_watch_begin(fj_watch *watch, PyObject *dict);
void fj_watch_end(fj_watch *watch);

#endif
