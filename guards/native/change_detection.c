/* See change_detection.h. */
#include "change_detection.h"

#include "dict_watch.h"

static fj_detection way;
/* 3.13.0 stores attributes into an object without an event or a new version of its dictionary;
 * probed by watching.py. */
static int blind_for_attributes = 1;

void
fj_detection_init(void)
{
    way = fj_has_watchers() ? BY_EVENT : BY_VERSION;
}

fj_detection
fj_detection_for_dict(PyObject *dict, int of_instance)
{
    return of_instance && blind_for_attributes && ((PyDictObject *)dict)->ma_values ? BY_VALUE
                                                                                    : way;
}

int
fj_detects_class_changes(void)
{
    return way != BY_VALUE;
}

/* ---- for watching.py ---- */

/* set_watching("values" | "versions" | "events" | None, blind for attributes): None: the best way
 * that this interpreter has. */
static PyObject *
set_watching(PyObject *module, PyObject *args)
{
    const char *name;
    int blind;
    if (!PyArg_ParseTuple(args, "zp", &name, &blind))
        return NULL;
    if (name == NULL)
        way = fj_has_watchers() ? BY_EVENT : BY_VERSION;
    else if (strcmp(name, "values") == 0)
        way = BY_VALUE;
    else if (strcmp(name, "versions") == 0)
        way = BY_VERSION;
    else if (strcmp(name, "events") == 0 && fj_has_watchers())
        way = BY_EVENT;
    else
        return PyErr_Format(PyExc_ValueError, "cannot watch by %s", name);
    blind_for_attributes = blind;
    Py_RETURN_NONE;
}

/* shows(dict, change): whether the way that is set detects the change that calling `change` makes.
 */
static PyObject *
shows(PyObject *module, PyObject *args)
{
    PyObject *dict, *change;
    if (!PyArg_ParseTuple(args, "O!O", &PyDict_Type, &dict, &change))
        return NULL;
    uint64_t changed = 0, version = ((PyDictObject *)dict)->ma_version_tag;
    fj_watch watch = {.any_key = 1, .changed = &changed, .owner_changed = &changed};
    if (way == BY_EVENT && fj_watch_begin(&watch, dict) < 0)
        Py_RETURN_FALSE;
    PyObject *result = PyObject_CallNoArgs(change);
    fj_watch_end(&watch);
    if (result == NULL)
        return NULL;
    Py_DECREF(result);
    if (way != BY_EVENT)
        changed = ((PyDictObject *)dict)->ma_version_tag != version;
    return PyBool_FromLong(changed != 0);
}

PyMethodDef fj_detection_methods[] = {
    {"set_watching", set_watching, METH_VARARGS, "set_watching(way | None, blind_for_attributes)"},
    {"shows", shows, METH_VARARGS,
     "shows(dict, change) -> bool: whether the call of `change` is detected as a change"},
    {NULL},
};
