/* Calls compiled kernels with little ceremony: arguments become 64-bit words, tensors their
 * addresses.
 *
 * run(address, *arguments): void kernel(const int64_t* words), for the CPU.
 * all_within(tensor, count, bytes, low, high): whether low <= x < high holds for that many integers
 * of 4 or 8 bytes, one behind the other.
 * Kernel(function, threads, shared_bytes, aligned, otherwise)(programs, stream, *arguments): a CUDA
 * kernel of Triton's, through the driver that the process has loaded. Every argument of it is 8
 * bytes wide. A thread that has no context of the driver's yet, such as autograd's before anything
 * else has used the GPU there, gets that of the thread that made the Kernel. It was compiled for
 * addresses that are multiples of 16 where `aligned` has a bit; when one is not, otherwise() gives
 * the Kernel that is called instead, from then on without asking again.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>

#define MOST_WORDS 128
#define CUDA_ERROR_INVALID_CONTEXT 201

/* Tags of the driver's interface by which all arguments of a kernel come as one piece of memory. */
#define CU_LAUNCH_PARAM_END ((void *)0)
#define CU_LAUNCH_PARAM_BUFFER_POINTER ((void *)1)
#define CU_LAUNCH_PARAM_BUFFER_SIZE ((void *)2)

typedef void (*kernel_function)(const int64_t *);
typedef int (*context_function)(void *);
typedef int (*launch_function)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                               unsigned, void *, void **, void **);

static PyObject *data_ptr_name;
static launch_function cuda_launch;
static context_function cuda_get_context, cuda_set_context;

/* An int as it is, anything else by its data_ptr(). */
static int
to_word(PyObject *argument, int64_t *word)
{
    if (PyLong_Check(argument)) {
        *word = PyLong_AsLongLong(argument);
        return *word == -1 && PyErr_Occurred() ? -1 : 0;
    }
    PyObject *address = PyObject_CallMethodNoArgs(argument, data_ptr_name);
    if (address == NULL)
        return -1;
    *word = (int64_t)PyLong_AsUnsignedLongLong(address);
    Py_DECREF(address);
    return *word == -1 && PyErr_Occurred() ? -1 : 0;
}

static PyObject *
run(PyObject *module, PyObject *const *arguments, Py_ssize_t count)
{
    int64_t words[MOST_WORDS];
    if (count < 1 || count > MOST_WORDS) {
        PyErr_Format(PyExc_TypeError, "run() takes 1 to %d arguments, not %zd", MOST_WORDS, count);
        return NULL;
    }
    kernel_function function = (kernel_function)PyLong_AsVoidPtr(arguments[0]);
    if (function == NULL) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_ValueError, "run(): no kernel has address 0");
        return NULL;
    }
    for (Py_ssize_t i = 1; i < count; i++) {
        if (to_word(arguments[i], &words[i - 1]) < 0)
            return NULL;
    }
    Py_BEGIN_ALLOW_THREADS function(words);
    Py_END_ALLOW_THREADS Py_RETURN_NONE;
}

/* What is outside leaves a sign: neither an early end nor a comparison keeps the loops from
 * becoming vector instructions. */
#define SIGNS(TYPE)                                                                      \
    {                                                                                    \
        const TYPE *x = (const TYPE *)(intptr_t)words[0];                                \
        for (int64_t i = 0; i < count; i++)                                              \
            signs |= ((uint64_t)(int64_t)x[i] - low) | (last - (uint64_t)(int64_t)x[i]); \
    }

static PyObject *
all_within(PyObject *module, PyObject *const *arguments, Py_ssize_t given)
{
    enum { ARGUMENTS = 5 };
    int64_t words[ARGUMENTS];
    if (given != ARGUMENTS) {
        PyErr_Format(PyExc_TypeError, "all_within() takes %d arguments, not %zd", ARGUMENTS, given);
        return NULL;
    }
    for (int i = 0; i < ARGUMENTS; i++) {
        if (to_word(arguments[i], &words[i]) < 0)
            return NULL;
    }
    int64_t count = words[1], bytes = words[2];
    uint64_t low = (uint64_t)words[3], last = (uint64_t)words[4] - 1, signs = 0;
    if (bytes != sizeof(int32_t) && bytes != sizeof(int64_t)) {
        PyErr_SetString(PyExc_ValueError, "all_within(): integers have 4 or 8 bytes");
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS if (bytes == sizeof(int32_t)) SIGNS(int32_t) else SIGNS(int64_t)
        Py_END_ALLOW_THREADS return PyBool_FromLong(!(signs >> 63));
}

static int
find_cuda(void)
{
    if (cuda_launch != NULL)
        return 0;
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
    if (driver != NULL) {
        cuda_get_context = (context_function)dlsym(driver, "cuCtxGetCurrent");
        cuda_set_context = (context_function)dlsym(driver, "cuCtxSetCurrent");
        cuda_launch = (launch_function)dlsym(driver, "cuLaunchKernel");
    }
    if (cuda_launch != NULL && cuda_get_context != NULL && cuda_set_context != NULL)
        return 0;
    cuda_launch = NULL;
    PyErr_SetString(PyExc_RuntimeError,
                    "the CUDA driver's cuLaunchKernel is not found; is libcuda.so.1 installed?");
    return -1;
}

typedef struct {
    PyObject_HEAD
    vectorcallfunc call;
    void *function;
    void *context; /* NULL where the driver could not say it */
    unsigned threads, shared;
    uint64_t aligned;
    PyObject *otherwise; /* a function until it was needed, then its result */
    int resolved;
} Kernel;

static PyTypeObject Kernel_type;

static PyObject *
call_otherwise(Kernel *self, PyObject *const *arguments, Py_ssize_t count)
{
    if (!self->resolved) {
        PyObject *found = PyObject_CallNoArgs(self->otherwise);
        if (found == NULL)
            return NULL;
        if (!Py_IS_TYPE(found, &Kernel_type)) {
            PyErr_Format(PyExc_TypeError, "otherwise() must give a Kernel, not %.100s",
                         Py_TYPE(found)->tp_name);
            Py_DECREF(found);
            return NULL;
        }
        Py_SETREF(self->otherwise, found);
        self->resolved = 1;
    }
    return PyObject_Vectorcall(self->otherwise, arguments, (size_t)count, NULL);
}

static int
launch(Kernel *self, const int64_t *words, void **packed)
{
    return cuda_launch(self->function, (unsigned)words[0], 1, 1, self->threads, 1, 1, self->shared,
                       (void *)words[1], NULL, packed);
}

static PyObject *
Kernel_call(PyObject *object, PyObject *const *arguments, size_t nargsf, PyObject *names)
{
    enum {
        LEADING = 2,
        SCRATCH = 2
    }; /* Triton's kernels take two addresses more, of memory that ours do without */
    Kernel *self = (Kernel *)object;
    Py_ssize_t count = PyVectorcall_NARGS(nargsf);
    int64_t words[MOST_WORDS + SCRATCH];
    if (count < LEADING || count > MOST_WORDS || (names != NULL && PyTuple_GET_SIZE(names) > 0)) {
        PyErr_Format(PyExc_TypeError, "a Kernel takes %d to %d positional arguments, not %zd",
                     LEADING, MOST_WORDS, count);
        return NULL;
    }
    if (find_cuda() < 0)
        return NULL;
    for (Py_ssize_t i = 0; i < count; i++) {
        if (to_word(arguments[i], &words[i]) < 0)
            return NULL;
        if (i >= LEADING && i < LEADING + 64 && words[i] & 15 &&
            self->aligned >> (i - LEADING) & 1) {
            return call_otherwise(self, arguments, count);
        }
    }
    if (words[0] <= 0)
        Py_RETURN_NONE; /* nothing to do */
    for (Py_ssize_t i = count; i < count + SCRATCH; i++)
        words[i] = 0;
    size_t size = (size_t)(count - LEADING + SCRATCH) * sizeof(int64_t);
    void *packed[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, words + LEADING, CU_LAUNCH_PARAM_BUFFER_SIZE,
                      &size, CU_LAUNCH_PARAM_END};
    int status;
    Py_BEGIN_ALLOW_THREADS status = launch(self, words, packed);
    if (status == CUDA_ERROR_INVALID_CONTEXT && self->context != NULL &&
        cuda_set_context(self->context) == 0)
        status = launch(self, words, packed);
    Py_END_ALLOW_THREADS if (status != 0)
    {
        PyErr_Format(PyExc_RuntimeError,
                     "a kernel was not launched: the CUDA driver returned error %d", status);
        return NULL;
    }
    Py_RETURN_NONE;
}

static PyObject *
Kernel_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"function", "threads", "shared", "aligned", "otherwise", NULL};
    unsigned long long function, aligned = 0;
    unsigned threads, shared;
    PyObject *otherwise = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "KII|KO:Kernel", names, &function, &threads,
                                     &shared, &aligned, &otherwise))
        return NULL;
    if (aligned != 0 && !PyCallable_Check(otherwise)) {
        PyErr_SetString(PyExc_TypeError,
                        "Kernel(): with `aligned`, `otherwise` must be a function");
        return NULL;
    }
    void *context = NULL;
    if (find_cuda() < 0)
        PyErr_Clear(); /* told when it is called */
    else if (cuda_get_context(&context) != 0)
        context = NULL;
    Kernel *self = (Kernel *)type->tp_alloc(type, 0);
    if (self == NULL)
        return NULL;
    self->context = context;
    self->call = Kernel_call;
    self->function = (void *)(uintptr_t)function;
    self->threads = threads;
    self->shared = shared;
    self->aligned = aligned;
    self->otherwise = Py_NewRef(otherwise);
    return (PyObject *)self;
}

static int
Kernel_traverse(Kernel *self, visitproc visit, void *arg)
{
    Py_VISIT(self->otherwise);
    return 0;
}

static int
Kernel_clear(Kernel *self)
{
    Py_CLEAR(self->otherwise);
    return 0;
}

static void
Kernel_dealloc(Kernel *self)
{
    PyObject_GC_UnTrack(self);
    Kernel_clear(self);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

static PyTypeObject Kernel_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "framejit.backends.native.toolchain._launch.Kernel",
    .tp_doc =
        "Kernel(function, threads, shared, aligned=0, otherwise=None): launches a CUDA kernel.",
    .tp_basicsize = sizeof(Kernel),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_new = Kernel_new,
    .tp_call = PyVectorcall_Call,
    .tp_vectorcall_offset = offsetof(Kernel, call),
    .tp_traverse = (traverseproc)Kernel_traverse,
    .tp_clear = (inquiry)Kernel_clear,
    .tp_dealloc = (destructor)Kernel_dealloc,
};

static PyMethodDef methods[] = {
    {"run", (PyCFunction)(void (*)(void))run, METH_FASTCALL,
     "run(address, *arguments): calls a CPU kernel."},
    {"all_within", (PyCFunction)(void (*)(void))all_within, METH_FASTCALL,
     "all_within(tensor, count, bytes, low, high): whether low <= x < high for all of its "
     "integers."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT,
                                    "_launch",
                                    "Calls compiled kernels.",
                                    -1,
                                    methods,
                                    NULL,
                                    NULL,
                                    NULL,
                                    NULL};

PyMODINIT_FUNC
PyInit__launch(void)
{
    data_ptr_name = PyUnicode_InternFromString("data_ptr");
    if (data_ptr_name == NULL || PyType_Ready(&Kernel_type) < 0)
        return NULL;
    PyObject *made = PyModule_Create(&module);
    if (made != NULL && PyModule_AddObjectRef(made, "Kernel", (PyObject *)&Kernel_type) < 0)
        Py_CLEAR(made);
    return made;
}
