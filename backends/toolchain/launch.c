/* Calls compiled kernels with little ceremony: arguments become 64-bit words, tensors their addresses.
 *
 * run(address, *arguments): void kernel(const int64_t* words), for the CPU.
 * launch(function, grid_x, grid_y, grid_z, threads, shared_bytes, stream, *arguments): a CUDA kernel, through the driver that
 * the process has loaded. Every argument of it is 8 bytes wide.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <dlfcn.h>
#include <stdint.h>

#define MOST_WORDS 128

typedef void (*kernel_function)(const int64_t *);
typedef int (*launch_function)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **);

static PyObject *data_ptr_name;
static launch_function cuda_launch;

/* An int as it is, anything else by its data_ptr(). */
static int to_word(PyObject *argument, int64_t *word) {
    if (PyLong_Check(argument)) {
        *word = PyLong_AsLongLong(argument);
        return *word == -1 && PyErr_Occurred() ? -1 : 0;
    }
    PyObject *address = PyObject_CallMethodNoArgs(argument, data_ptr_name);
    if (address == NULL) return -1;
    *word = (int64_t)PyLong_AsUnsignedLongLong(address);
    Py_DECREF(address);
    return *word == -1 && PyErr_Occurred() ? -1 : 0;
}

static PyObject *run(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
    int64_t words[MOST_WORDS];
    if (count < 1 || count > MOST_WORDS) {
        PyErr_Format(PyExc_TypeError, "run() takes 1 to %d arguments, not %zd", MOST_WORDS, count);
        return NULL;
    }
    kernel_function function = (kernel_function)PyLong_AsVoidPtr(arguments[0]);
    if (function == NULL) {
        if (!PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, "run(): no kernel has address 0");
        return NULL;
    }
    for (Py_ssize_t i = 1; i < count; i++) {
        if (to_word(arguments[i], &words[i - 1]) < 0) return NULL;
    }
    Py_BEGIN_ALLOW_THREADS
    function(words);
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}

static int find_cuda(void) {
    if (cuda_launch != NULL) return 0;
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
    if (driver != NULL) cuda_launch = (launch_function)dlsym(driver, "cuLaunchKernel");
    if (cuda_launch != NULL) return 0;
    PyErr_SetString(PyExc_RuntimeError, "launch(): the CUDA driver's cuLaunchKernel is not found; is libcuda.so.1 installed?");
    return -1;
}

static PyObject *launch(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
    enum { LEADING = 7 };
    int64_t words[MOST_WORDS];
    void *pointers[MOST_WORDS];
    if (count < LEADING || count > MOST_WORDS) {
        PyErr_Format(PyExc_TypeError, "launch() takes %d to %d arguments, not %zd", LEADING, MOST_WORDS, count);
        return NULL;
    }
    if (find_cuda() < 0) return NULL;
    for (Py_ssize_t i = 0; i < count; i++) {
        if (to_word(arguments[i], &words[i]) < 0) return NULL;
        pointers[i] = &words[i];
    }
    if (words[1] == 0 || words[2] == 0 || words[3] == 0) Py_RETURN_NONE; /* nothing to do */
    int status;
    Py_BEGIN_ALLOW_THREADS
    status = cuda_launch((void *)words[0], (unsigned)words[1], (unsigned)words[2], (unsigned)words[3], (unsigned)words[4], 1, 1,
                         (unsigned)words[5], (void *)words[6], pointers + LEADING, NULL);
    Py_END_ALLOW_THREADS
    if (status != 0) {
        PyErr_Format(PyExc_RuntimeError, "launch(): the CUDA driver returned error %d", status);
        return NULL;
    }
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"run", (PyCFunction)(void (*)(void))run, METH_FASTCALL, "run(address, *arguments): calls a CPU kernel."},
    {"launch", (PyCFunction)(void (*)(void))launch, METH_FASTCALL,
     "launch(function, grid_x, grid_y, grid_z, threads, shared_bytes, stream, *arguments): launches a CUDA kernel."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_launch", "Calls compiled kernels.", -1, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__launch(void) {
    data_ptr_name = PyUnicode_InternFromString("data_ptr");
    return data_ptr_name == NULL ? NULL : PyModule_Create(&module);
}
