/* See dict_watch.h. All functions need the GIL. */
#include "object_compat.h"

#include "dict_watch.h"

static struct {
    fj_watch **buckets; /* a power of two of them; dictionaries of one bucket share a list */
    size_t size, count;
    int id;
} registry = {.id = -1};

static inline size_t
bucket_of(PyObject *dict)
{
    return ((uintptr_t)dict >> 4) * 0x9E3779B97F4A7C15u >> 32 & (registry.size - 1);
}

static inline uint64_t
bloom_of(PyObject *key)
{
    return (uint64_t)1 << ((uintptr_t)key >> 5 & 63);
}

static void
insert(fj_watch *watch)
{
    fj_watch **at = &registry.buckets[bucket_of(watch->dict)];
    watch->next = *at;
    watch->at = at;
    if (watch->next)
        watch->next->at = &watch->next;
    *at = watch;
}

static void
detach(fj_watch *watch)
{
    *watch->at = watch->next;
    if (watch->next)
        watch->next->at = watch->at;
    registry.count--;
}

static int
grow(void)
{
    size_t size = registry.size ? 2 * registry.size : 64, before = registry.size;
    fj_watch **old = registry.buckets, **buckets = PyMem_RawCalloc(size, sizeof *buckets);
    if (buckets == NULL)
        return -1;
    registry.buckets = buckets;
    registry.size = size;
    for (size_t i = 0; i < before; i++)
        for (fj_watch *watch = old[i], *next; watch; watch = next) {
            next = watch->next;
            insert(watch);
        }
    PyMem_RawFree(old);
    return 0;
}

#ifdef FJ_DICT_WATCHERS

static int
wants(const fj_watch *watch, PyObject *key)
{
    if (watch->any_key || key == NULL || !PyUnicode_CheckExact(key) ||
        !PyUnicode_CHECK_INTERNED(key))
        return 1;
    if (!(watch->bloom & bloom_of(key)))
        return 0;
    for (Py_ssize_t i = 0; i < watch->key_count; i++)
        if (watch->keys[i] == key)
            return 1;
    return 0;
}

static int
on_event(PyDict_WatchEvent event, PyObject *dict, PyObject *key, PyObject *value)
{
    (void)value;
    for (fj_watch *watch = registry.buckets[bucket_of(dict)], *next; watch; watch = next) {
        next = watch->next;
        if (watch->dict != dict || !wants(watch, key))
            continue;
        *watch->changed = *watch->owner_changed = 1;
        if (event == PyDict_EVENT_DEALLOCATED) {
            detach(watch);
            watch->dict = NULL;
        }
    }
    return 0;
}

static int
is_watched(PyObject *dict)
{
    for (fj_watch *watch = registry.buckets[bucket_of(dict)]; watch; watch = watch->next)
        if (watch->dict == dict)
            return 1;
    return 0;
}

int
fj_has_watchers(void)
{
    if (registry.id < 0 && (registry.id = PyDict_AddWatcher(on_event)) < 0)
        PyErr_Clear();
    return registry.id >= 0;
}

static int
watch_dict(PyObject *dict)
{
    return PyDict_Watch(registry.id, dict);
}

static void
unwatch_dict(PyObject *dict)
{
    if (PyDict_Unwatch(registry.id, dict) < 0)
        PyErr_Clear();
}

#else

static int
is_watched(PyObject *dict)
{
    return (void)dict, 0;
}
int
fj_has_watchers(void)
{
    return 0;
}
static int
watch_dict(PyObject *dict)
{
    return (void)dict, -1;
}
static void
unwatch_dict(PyObject *dict)
{
    (void)dict;
}

#endif

int
fj_watch_begin(fj_watch *watch, PyObject *dict)
{
    if (!fj_has_watchers() || (registry.count >= registry.size && grow() < 0))
        return -1;
    if (watch_dict(dict) < 0)
        return PyErr_Clear(), -1;
    watch->dict = dict;
    watch->bloom = 0;
    for (Py_ssize_t i = 0; i < watch->key_count; i++)
        watch->bloom |= bloom_of(watch->keys[i]);
    insert(watch);
    registry.count++;
    return 0;
}

void
fj_watch_end(fj_watch *watch)
{
    PyObject *dict = watch->dict;
    if (dict == NULL)
        return;
    detach(watch);
    watch->dict = NULL;
    if (!is_watched(dict))
        unwatch_dict(dict);
}
