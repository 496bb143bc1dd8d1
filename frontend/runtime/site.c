/* Site: the entries of one code object, or of one resume point in it, under one handle. Chooses the
 * entry for a call; does not run it. */
#include "hook.h"

#include <structmember.h>

PyObject *unbound_marker; /* in a tuple of slots: this slot is unbound */

/* ---- the list of entries ---- */

static Py_ssize_t
site_index(Site *self, Entry *entry)
{
    for (Py_ssize_t i = 0; i < self->count; i++) {
        if (self->entries[i].entry == entry) {
            return i;
        }
    }
    return -1;
}

static int
site_insert(Site *self, Entry *entry)
{
    if (self->count == self->capacity) {
        Py_ssize_t capacity = self->capacity ? 2 * self->capacity : 2;
        ListedEntry *entries = PyMem_Resize(self->entries, ListedEntry, capacity);
        if (entries == NULL) {
            PyErr_NoMemory();
            return -1;
        }
        self->entries = entries;
        self->capacity = capacity;
    }
    memmove(self->entries + 1, self->entries, self->count * sizeof(ListedEntry));
    self->entries[0] = (ListedEntry){(Entry *)Py_NewRef(entry), NULL};
    if (self->count++ > 0) {
        self->entries[1].next = entry;
    }
    return 0;
}

static void
site_drop_entries(Site *self)
{
    ListedEntry *entries = self->entries;
    Py_ssize_t count = self->count;
    self->entries = NULL;
    self->count = self->capacity = 0;
    for (Py_ssize_t i = 0; i < count; i++) {
        Py_DECREF(entries[i].entry);
    }
    PyMem_Free(entries);
}

/* An entry was hit: it comes first, and is expected after the one that was hit before it. */
static void
site_to_front(Site *self, Py_ssize_t index)
{
    ListedEntry hit = self->entries[index];
    self->entries[0].next = index > 0 ? hit.entry : NULL;
    if (index > 0) {
        memmove(self->entries + 1, self->entries, index * sizeof(ListedEntry));
        self->entries[0] = hit;
    }
}

/* ---- choosing ---- */

static PyObject *
slots_tuple(PyObject *const *slots, Py_ssize_t nslots)
{
    PyObject *tuple = PyTuple_New(nslots);
    for (Py_ssize_t i = 0; tuple != NULL && i < nslots; i++) {
        PyTuple_SET_ITEM(tuple, i, Py_NewRef(slots[i] != NULL ? slots[i] : unbound_marker));
    }
    return tuple;
}

/* What on_miss makes of this call: a new reference to an entry, which is in the list now unless it
 * is for this call only, or NULL. */
static Entry *
site_compile(Site *self, PyObject *const *slots, Py_ssize_t nslots, PyObject *function)
{
    if (self->on_miss == NULL || self->on_miss == Py_None) {
        return NULL;
    }
    PyObject *tuple = slots_tuple(slots, nslots);
    if (tuple == NULL) {
        return NULL;
    }
    PyObject *on_miss = Py_NewRef(self->on_miss);
    PyObject *args[] = {NULL, (PyObject *)self, function, tuple};
    PyObject *made = call_quietly(on_miss, args + 1, 3 | PY_VECTORCALL_ARGUMENTS_OFFSET, NULL);
    Py_DECREF(on_miss);
    Py_DECREF(tuple);
    if (made == NULL && PyErr_ExceptionMatches(PyExc_RecursionError)) {
        PyErr_Clear(); /* no stack left to compile in; the call itself may still fit */
    }
    if (made == NULL || made == Py_None) {
        Py_XDECREF(made);
        return NULL;
    }
    if (!Py_IS_TYPE(made, &Entry_Type)) {
        PyErr_Format(PyExc_TypeError, "on_miss must return an Entry or None, not %s",
                     Py_TYPE(made)->tp_name);
        Py_DECREF(made);
        return NULL;
    }
    if (!((Entry *)made)->once && site_index(self, (Entry *)made) < 0 &&
        site_insert(self, (Entry *)made) < 0) {
        Py_CLEAR(made);
    }
    return (Entry *)made;
}

/* entry_holds with the hook off: user code that guards run (such as __getattribute__) is not
 * compiled. */
static int
entry_holds_quietly(Entry *entry, PyObject *const *slots, Py_ssize_t nslots, PyObject *function,
                    PyObject **lifted)
{
    ThreadMode *mode = &thread_mode;
    if (mode->current == NULL || mode->quiet != 0) {
        return entry_holds(entry, slots, nslots, function, lifted);
    }
    mode_enter_quiet(mode);
    int holds = entry_holds(entry, slots, nslots, function, lifted);
    mode_leave_quiet(mode);
    return holds;
}

static Entry *
site_miss(Site *self, PyObject *const *slots, Py_ssize_t nslots, PyObject *function,
          PyObject **lifted)
{
    self->misses++;
    if (self->full || stance_now() == STANCE_EAGER_ON_RECOMPILE) {
        self->passed++;
        return NULL;
    }
    Entry *made = site_compile(self, slots, nslots, function);
    if (made == NULL) {
        return NULL;
    }
    if (!entry_holds_quietly(made, slots, nslots, function, lifted)) {
        /* It misses again and again: Python can read this count and decide. */
        self->rejected++;
        Py_DECREF(made);
        return NULL;
    }
    made->hits++;
    return made;
}

/* Whether an entry may serve this call; then it comes to the front. Guards may run Python, which
 * may drop or reorder entries under us: the caller holds this one, the list is looked at afresh. */
static int
site_try(Site *self, Entry *entry, PyObject *const *slots, Py_ssize_t nslots, PyObject *function,
         PyObject **lifted)
{
    if (!entry_holds_quietly(entry, slots, nslots, function, lifted)) {
        return 0;
    }
    Py_ssize_t index = site_index(self, entry);
    if (index >= 0) {
        site_to_front(self, index);
    }
    entry->hits++;
    return 1;
}

/* First the entry that followed the last hit entry the time before: iterations of a loop with an
 * entry each come in the same order again. Then the others, most recently hit first. */
Entry *
site_choose(Site *self, PyObject *const *slots, Py_ssize_t nslots, PyObject *function,
            PyObject **lifted)
{
    *lifted = NULL;
    if (self->skip || stance_now() == STANCE_FORCE_EAGER) {
        return NULL;
    }
    Entry *expected = self->count > 0 ? (Entry *)Py_XNewRef(self->entries[0].next) : NULL;
    if (expected != NULL && site_try(self, expected, slots, nslots, function, lifted)) {
        return expected;
    }
    for (Py_ssize_t i = 0; i < self->count; i++) {
        Entry *entry = (Entry *)Py_NewRef(self->entries[i].entry);
        if (entry != expected && site_try(self, entry, slots, nslots, function, lifted)) {
            Py_XDECREF(expected);
            return entry;
        }
        Py_DECREF(entry);
    }
    Py_XDECREF(expected);
    return site_miss(self, slots, nslots, function, lifted);
}

/* ---- the type ---- */

static PyObject *
site_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"function", "nslots", "on_miss", "data", NULL};
    PyObject *function = Py_None, *on_miss = Py_None, *data = Py_None;
    Py_ssize_t nslots = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "On|OO:Site", names, &function, &nslots,
                                     &on_miss, &data)) {
        return NULL;
    }
    if (nslots < 0) {
        PyErr_SetString(PyExc_ValueError, "nslots must not be negative");
        return NULL;
    }
    if ((function != Py_None && !PyCallable_Check(function)) ||
        (on_miss != Py_None && !PyCallable_Check(on_miss))) {
        PyErr_SetString(PyExc_TypeError, "function and on_miss must be callable or None");
        return NULL;
    }
    Site *self = (Site *)type->tp_alloc(type, 0);
    if (self != NULL) {
        self->function = Py_NewRef(function);
        self->on_miss = Py_NewRef(on_miss);
        self->data = Py_NewRef(data);
        self->nslots = nslots;
    }
    return (PyObject *)self;
}

static int
site_traverse(Site *self, visitproc visit, void *arg)
{
    Py_VISIT(self->function);
    Py_VISIT(self->on_miss);
    Py_VISIT(self->data);
    Py_VISIT(self->dict);
    for (Py_ssize_t i = 0; i < self->count; i++) {
        Py_VISIT(self->entries[i].entry);
    }
    return 0;
}

static int
site_clear(Site *self)
{
    /* `function` stays, so that no call finds a site without one; functions clear themselves. */
    Py_CLEAR(self->on_miss);
    Py_CLEAR(self->data);
    Py_CLEAR(self->dict);
    site_drop_entries(self);
    return 0;
}

static void
site_dealloc(Site *self)
{
    PyObject_GC_UnTrack(self);
    if (self->weakrefs != NULL) {
        PyObject_ClearWeakRefs((PyObject *)self);
    }
    site_clear(self);
    Py_CLEAR(self->function);
    Py_TYPE(self)->tp_free(self);
}

static PyObject *
site_get_entries(Site *self, void *Py_UNUSED(closure))
{
    PyObject *tuple = PyTuple_New(self->count);
    for (Py_ssize_t i = 0; tuple != NULL && i < self->count; i++) {
        PyTuple_SET_ITEM(tuple, i, Py_NewRef(self->entries[i].entry));
    }
    return tuple;
}

static PyObject *
site_add(Site *self, PyObject *entry)
{
    if (!Py_IS_TYPE(entry, &Entry_Type)) {
        PyErr_SetString(PyExc_TypeError, "add() takes an Entry");
        return NULL;
    }
    if (site_insert(self, (Entry *)entry) < 0) {
        return NULL;
    }
    Py_RETURN_NONE;
}

static PyObject *
site_remove(Site *self, PyObject *entry)
{
    Py_ssize_t index = site_index(self, (Entry *)entry);
    if (index < 0) {
        PyErr_SetString(PyExc_ValueError, "no such entry");
        return NULL;
    }
    Entry *gone = self->entries[index].entry;
    self->count--;
    memmove(self->entries + index, self->entries + index + 1,
            (self->count - index) * sizeof(ListedEntry));
    for (Py_ssize_t i = 0; i < self->count; i++) {
        if (self->entries[i].next == gone) {
            self->entries[i].next = NULL;
        }
    }
    Py_DECREF(gone);
    Py_RETURN_NONE;
}

static PyObject *
site_clear_entries(Site *self, PyObject *Py_UNUSED(none))
{
    site_drop_entries(self);
    Py_RETURN_NONE;
}

static PyMethodDef site_methods[] = {
    {"add", (PyCFunction)site_add, METH_O, "add(entry)\n--\n\nPut an entry in front."},
    {"remove", (PyCFunction)site_remove, METH_O,
     "remove(entry)\n--\n\nDrop an entry; ValueError if it is not there."},
    {"clear", (PyCFunction)site_clear_entries, METH_NOARGS, "clear()\n--\n\nDrop all entries."},
    {NULL},
};

static PyMemberDef site_members[] = {
    {"function", T_OBJECT, offsetof(Site, function), READONLY, "the eager function, or None"},
    {"nslots", T_PYSSIZET, offsetof(Site, nslots), READONLY,
     "how many argument slots its guards see"},
    {"on_miss", T_OBJECT, offsetof(Site, on_miss), 0,
     "on_miss(site, function, slots) -> Entry | None"},
    {"data", T_OBJECT, offsetof(Site, data), 0, "whatever its maker keeps with it"},
    {"skip", T_BOOL, offsetof(Site, skip), 0, "run eager without a look at the entries"},
    {"full", T_BOOL, offsetof(Site, full), 0,
     "make no more entries: what those there do not serve runs eager"},
    {"gave_up", T_BOOL, offsetof(Site, gave_up), 0,
     "a call that no entry serves runs eager with the hook off"},
    {"passed", T_ULONGLONG, offsetof(Site, passed), 0,
     "calls left to eager as the site was full or the stance said so"},
    {"misses", T_ULONGLONG, offsetof(Site, misses), 0, "calls that no entry served"},
    {"rejected", T_ULONGLONG, offsetof(Site, rejected), 0,
     "entries whose guards failed for the call they were made for"},
    {NULL},
};

static PyGetSetDef site_getset[] = {
    {"entries", (getter)site_get_entries, NULL, "its entries, the one hit last first"},
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict},
    {NULL},
};

PyTypeObject Site_Type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "framejit.frontend.runtime._hook.Site",
    .tp_doc = "Site(function, nslots, on_miss=None, data=None)\n--\n\nA place where compiled "
              "entries live.",
    .tp_basicsize = sizeof(Site),
    .tp_dictoffset = offsetof(Site, dict),
    .tp_weaklistoffset = offsetof(Site, weakrefs),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_new = site_new,
    .tp_dealloc = (destructor)site_dealloc,
    .tp_traverse = (traverseproc)site_traverse,
    .tp_clear = (inquiry)site_clear,
    .tp_methods = site_methods,
    .tp_members = site_members,
    .tp_getset = site_getset,
};
