/* (handle, code object) -> site. A link hangs in two lists, its handle's and its code object's, and
 * goes with whichever dies first. The handle owns the site, where the GC can see it (nothing
 * traverses co_extra); codes are not kept alive, as programs that make code all day would never let
 * any of it go. */
#include "hook.h"

struct Link {
    Handle *handle;
    PyCodeObject *code;
    Site *site; /* strong; NULL: let its frames through */
    Link *next_of_handle, **at_handle;
    Link *next_of_code, **at_code;
};

/* What co_extra holds. */
typedef struct {
    Link *links;
} Record;

static Py_ssize_t extra_index = -1;

static void
link_detach(Link *link)
{
    *link->at_handle = link->next_of_handle;
    if (link->next_of_handle != NULL) {
        link->next_of_handle->at_handle = link->at_handle;
    }
    *link->at_code = link->next_of_code;
    if (link->next_of_code != NULL) {
        link->next_of_code->at_code = link->at_code;
    }
}

static void
link_free(Link *link)
{
    Site *site = link->site;
    PyMem_Free(link);
    Py_XDECREF(site); /* last: this may run any code */
}

/* The code object is freed. All links are detached before any site is freed, because that may look
 * up this code again. */
static void
record_release(void *extra)
{
    Record *record = extra;
    Link *detached = NULL;
    while (record != NULL && record->links != NULL) {
        Link *link = record->links;
        link_detach(link);
        link->next_of_code = detached;
        detached = link;
    }
    PyMem_Free(record);
    while (detached != NULL) {
        Link *next = detached->next_of_code;
        link_free(detached);
        detached = next;
    }
}

int
links_init(void)
{
    if (extra_index < 0) {
        extra_index = code_extra_index(record_release);
    }
    if (extra_index < 0) {
        PyErr_SetString(PyExc_ImportError, "framejit: no co_extra slot left");
        return -1;
    }
    return 0;
}

Link *
link_find(Handle *handle, PyCodeObject *code)
{
    Record *record = code_extra(code, extra_index);
    Link *link = record == NULL ? NULL : record->links;
    while (link != NULL && link->handle != handle) {
        link = link->next_of_code;
    }
    return link;
}

static Record *
record_of(PyCodeObject *code)
{
    Record *record = code_extra(code, extra_index);
    if (record == NULL && (record = PyMem_Calloc(1, sizeof(Record))) != NULL &&
        code_set_extra(code, extra_index, record) < 0) {
        PyMem_Free(record);
        record = NULL;
    }
    return record;
}

Link *
link_add(Handle *handle, PyCodeObject *code, Site *site)
{
    Record *record = record_of(code);
    Link *link = record == NULL ? NULL : PyMem_Malloc(sizeof(Link));
    if (link == NULL) {
        PyErr_Clear();
        return NULL;
    }
    *link = (Link){handle,        code,           (Site *)Py_XNewRef(site),
                   handle->links, &handle->links, record->links,
                   &record->links};
    if (link->next_of_handle != NULL) {
        link->next_of_handle->at_handle = &link->next_of_handle;
    }
    if (link->next_of_code != NULL) {
        link->next_of_code->at_code = &link->next_of_code;
    }
    handle->links = record->links = link;
    return link;
}

Site *
link_site(Link *link)
{
    return link->site;
}

int
links_traverse(Handle *handle, visitproc visit, void *arg)
{
    for (Link *link = handle->links; link != NULL; link = link->next_of_handle) {
        Py_VISIT(link->site);
    }
    return 0;
}

void
links_drop(Handle *handle)
{
    while (handle->links != NULL) {
        Link *link = handle->links;
        link_detach(link);
        link_free(link);
    }
}

/* Making tuples may run the GC, and that may drop links: first hold everything, then build. */
PyObject *
links_list(Handle *handle)
{
    Py_ssize_t count = 0, i = 0;
    for (Link *link = handle->links; link != NULL; link = link->next_of_handle) {
        count++;
    }
    PyObject **held = PyMem_New(PyObject *, 2 * count + 1);
    if (held == NULL) {
        return PyErr_NoMemory();
    }
    for (Link *link = handle->links; link != NULL; link = link->next_of_handle) {
        held[i++] = Py_NewRef(link->code);
        held[i++] = Py_NewRef(link->site != NULL ? (PyObject *)link->site : Py_None);
    }
    PyObject *list = PyList_New(count);
    for (i = 0; list != NULL && i < count; i++) {
        PyObject *pair = PyTuple_Pack(2, held[2 * i], held[2 * i + 1]);
        if (pair == NULL) {
            Py_CLEAR(list);
            break;
        }
        PyList_SET_ITEM(list, i, pair);
    }
    for (i = 0; i < 2 * count; i++) {
        Py_DECREF(held[i]);
    }
    PyMem_Free(held);
    return list;
}
