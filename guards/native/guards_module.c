/* The extension module guards.native._guards, and the functions that the hook takes from it. */
#include "program.h"

#include "change_detection.h"
#include "guard_api.h"
#include "iterators.h"

PyObject *fj_unbound;
PyTypeObject *fj_deque;

static int
api_run(PyObject *program, PyObject *const *slots, Py_ssize_t nslots, PyObject *function,
        PyObject **lifted)
{
    return fj_evaluate((Program *)program, (Frame){slots, nslots, function}, lifted) == PASSED;
}

static framejit_guard_api api = {.program_type = &fj_program_type, .run = api_run};

static struct PyModuleDef module_def = {PyModuleDef_HEAD_INIT, "_guards", "The guard evaluator.",
                                        -1};

static PyTypeObject *
import_deque(void)
{
    PyObject *module = PyImport_ImportModule("collections");
    PyObject *type = module ? PyObject_GetAttrString(module, "deque") : NULL;
    Py_XDECREF(module);
    return (PyTypeObject *)type;
}

PyMODINIT_FUNC
PyInit__guards(void)
{
    if (PyType_Ready(&fj_program_type) < 0 || (fj_deque = import_deque()) == NULL)
        return NULL;
    fj_detection_init();
    PyObject *module = PyModule_Create(&module_def);
    if (module == NULL)
        return NULL;
    fj_unbound = PyObject_CallNoArgs((PyObject *)&PyBaseObject_Type);
    PyObject *capsule = PyCapsule_New(&api, FRAMEJIT_GUARD_CAPSULE, NULL);
    if (PyModule_AddFunctions(module, fj_tensor_methods) < 0 ||
        PyModule_AddFunctions(module, fj_state_methods) < 0 ||
        PyModule_AddFunctions(module, fj_detection_methods) < 0 ||
        PyModule_AddFunctions(module, fj_iterator_methods) < 0 ||
        PyModule_AddObjectRef(module, "Program", (PyObject *)&fj_program_type) < 0 ||
        PyModule_AddObjectRef(module, "UNBOUND", fj_unbound) < 0 ||
        PyModule_AddObjectRef(module, "api", capsule) < 0)
        Py_CLEAR(module);
    Py_XDECREF(capsule);
    return module;
}
