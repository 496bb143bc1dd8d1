/* Who wants to know of changes in which dictionary: CPython's dictionary watchers (3.12 and later), filtered by key. */
#ifndef FRAMEJIT_DICT_WATCH_H
#define FRAMEJIT_DICT_WATCH_H
#include <Python.h>
#include <stdint.h>

/* One interest in one dictionary. Lives in its owner's memory; must be ended before that goes. */
typedef struct fj_watch {
    PyObject *dict; /* borrowed; NULL once the dictionary is gone */
    PyObject **keys; /* borrowed interned strings */
    Py_ssize_t key_count;
    int any_key;
    uint64_t bloom;
    uint64_t *changed, *owner_changed; /* set to 1 by an event; nothing else happens then */
    struct fj_watch *next, **at;
} fj_watch;

/* Whether this interpreter has dictionary watchers, and one was left for us. */
int fj_has_watchers(void);

/* 0, or -1 (without an exception) if the dictionary cannot be watched. `keys` and the places for marks are set already. */
int fj_watch_begin(fj_watch *watch, PyObject *dict);
void fj_watch_end(fj_watch *watch);

#endif
