/* See relation.h. */
#include "relation.h"

/* In the order of relation.py's OPERATIONS. */
typedef enum {
    SYMBOL,
    CONSTANT,
    ADD,
    SUBTRACT,
    MULTIPLY,
    FLOORDIV,
    MODULO,
    MIN,
    MAX,
    EQ,
    NE,
    LT,
    LE,
    GT,
    GE,
    NEGATE,
    ABSOLUTE,
    NOT,
    SKIP_IF_FALSE,
    SKIP_IF_TRUE,
    OPERATIONS
} Operation;

enum { DEEPEST = 32 }; /* relation.py has the same */

typedef struct {
    int64_t argument;
    uint8_t operation;
} Instruction;

struct fj_relation {
    Py_ssize_t count;
    Instruction code[];
};

/* How many items an operation takes off the stack; it leaves one. A skip that is taken takes none.
 */
static int
taken(Operation operation)
{
    return operation <= CONSTANT ? 0 : operation <= GE ? 2 : operation <= NOT ? 1 : 0;
}

static int
is_skip(Operation operation)
{
    return operation == SKIP_IF_FALSE || operation == SKIP_IF_TRUE;
}

/* The stack never under- or overflows, and every skip lands in the code or at its end. */
static int
is_sound(const fj_relation *relation, Py_ssize_t symbols)
{
    int depth = 0;
    for (Py_ssize_t i = 0; i < relation->count; i++) {
        const Instruction *at = &relation->code[i];
        if (at->operation >= OPERATIONS || depth < taken(at->operation))
            return 0;
        if (at->operation == SYMBOL && (at->argument < 0 || at->argument >= symbols))
            return 0;
        if (is_skip(at->operation)) {
            if (depth < 1 || at->argument < 1 || at->argument > relation->count - i - 1)
                return 0;
            depth--;
        }
        else {
            depth += 1 - taken(at->operation);
        }
        if (depth > DEEPEST)
            return 0;
    }
    return depth == 1;
}

fj_relation *
fj_relation_new(PyObject *code, Py_ssize_t symbols)
{
    if (!PyTuple_Check(code))
        return (fj_relation *)PyErr_Format(PyExc_TypeError, "the code of a relation is a tuple");
    Py_ssize_t count = PyTuple_GET_SIZE(code);
    fj_relation *relation = PyMem_Malloc(sizeof *relation + count * sizeof *relation->code);
    if (relation == NULL)
        return (fj_relation *)PyErr_NoMemory();
    relation->count = count;
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *pair = PyTuple_GET_ITEM(code, i);
        long long argument;
        if (!PyTuple_Check(pair) ||
            !PyArg_ParseTuple(pair, "bL", &relation->code[i].operation, &argument)) {
            if (!PyErr_Occurred())
                PyErr_SetString(PyExc_TypeError, "an operation is a tuple");
            PyMem_Free(relation);
            return NULL;
        }
        relation->code[i].argument = argument;
    }
    if (!is_sound(relation, symbols)) {
        PyMem_Free(relation);
        PyErr_SetString(PyExc_ValueError, "a relation whose stack does not work out");
        return NULL;
    }
    return relation;
}

void
fj_relation_free(fj_relation *relation)
{
    PyMem_Free(relation);
}

/* ---- on 64 bits ---- */

/* 0 where the result does not fit, or there is none. */
static inline int
calculate(Operation operation, int64_t a, int64_t b, int64_t *result)
{
    switch (operation) {
    case ADD: return !__builtin_add_overflow(a, b, result);
    case SUBTRACT: return !__builtin_sub_overflow(a, b, result);
    case MULTIPLY: return !__builtin_mul_overflow(a, b, result);
    case FLOORDIV:
    case MODULO: {
        if (b == 0 || (a == INT64_MIN && b == -1))
            return 0;
        int64_t quotient = a / b, rest = a % b;
        int down = rest != 0 && (rest < 0) != (b < 0); /* C cuts, Python rounds down */
        *result = operation == FLOORDIV ? quotient - down : rest + (down ? b : 0);
        return 1;
    }
    case MIN: return *result = b < a ? b : a, 1;
    case MAX: return *result = b > a ? b : a, 1;
    case EQ: return *result = a == b, 1;
    case NE: return *result = a != b, 1;
    case LT: return *result = a < b, 1;
    case LE: return *result = a <= b, 1;
    case GT: return *result = a > b, 1;
    case GE: return *result = a >= b, 1;
    default: return 0;
    }
}

/* 1 or 0; -1: to be done with Python's numbers. */
static int
run_small(const fj_relation *relation, const int64_t *numbers)
{
    int64_t stack[DEEPEST + 1];
    int top = -1;
    for (Py_ssize_t i = 0; i < relation->count; i++) {
        const Instruction *at = &relation->code[i];
        switch ((Operation)at->operation) {
        case SYMBOL: stack[++top] = numbers[at->argument]; break;
        case CONSTANT: stack[++top] = at->argument; break;
        case NEGATE:
            if (stack[top] == INT64_MIN)
                return -1;
            stack[top] = -stack[top];
            break;
        case ABSOLUTE:
            if (stack[top] == INT64_MIN)
                return -1;
            stack[top] = stack[top] < 0 ? -stack[top] : stack[top];
            break;
        case NOT: stack[top] = !stack[top]; break;
        case SKIP_IF_FALSE:
        case SKIP_IF_TRUE:
            if ((stack[top] != 0) == (at->operation == SKIP_IF_TRUE))
                i += at->argument;
            else
                top--;
            break;
        default:
            if (!calculate(at->operation, stack[top - 1], stack[top], &stack[top - 1]))
                return -1;
            top--;
        }
    }
    return stack[top] != 0;
}

/* ---- on Python's numbers ---- */

static PyObject *
truth(int is_so)
{
    return is_so < 0 ? NULL : PyBool_FromLong(is_so);
}

/* A new reference, or NULL with an exception. */
static PyObject *
calculate_objects(Operation operation, PyObject *a, PyObject *b)
{
    static const int compare[] = {Py_EQ, Py_NE, Py_LT, Py_LE, Py_GT, Py_GE};
    int is_so;
    switch (operation) {
    case ADD: return PyNumber_Add(a, b);
    case SUBTRACT: return PyNumber_Subtract(a, b);
    case MULTIPLY: return PyNumber_Multiply(a, b);
    case FLOORDIV: return PyNumber_FloorDivide(a, b);
    case MODULO: return PyNumber_Remainder(a, b);
    case MIN:
        return (is_so = PyObject_RichCompareBool(b, a, Py_LT)) < 0 ? NULL
                                                                   : Py_NewRef(is_so ? b : a);
    case MAX:
        return (is_so = PyObject_RichCompareBool(b, a, Py_GT)) < 0 ? NULL
                                                                   : Py_NewRef(is_so ? b : a);
    default: return PyObject_RichCompare(a, b, compare[operation - EQ]);
    }
}

static PyObject *
change_object(Operation operation, PyObject *a)
{
    return operation == NEGATE     ? PyNumber_Negative(a)
           : operation == ABSOLUTE ? PyNumber_Absolute(a)
                                   : truth(PyObject_Not(a));
}

static int
run_objects(const fj_relation *relation, PyObject *const *temps, const uint16_t *symbols)
{
    PyObject *stack[DEEPEST + 1];
    int top = -1, holds = 0;
    for (Py_ssize_t i = 0; i < relation->count; i++) {
        const Instruction *at = &relation->code[i];
        PyObject *made;
        if (is_skip(at->operation)) {
            int is_true = PyObject_IsTrue(stack[top]);
            if (is_true < 0)
                goto done;
            if (is_true == (at->operation == SKIP_IF_TRUE))
                i += at->argument;
            else
                Py_DECREF(stack[top--]);
            continue;
        }
        if (at->operation == SYMBOL)
            made = Py_NewRef(temps[symbols[at->argument]]);
        else if (at->operation == CONSTANT)
            made = PyLong_FromLongLong(at->argument);
        else if (taken(at->operation) == 1)
            made = change_object(at->operation, stack[top]);
        else
            made = calculate_objects(at->operation, stack[top - 1], stack[top]);
        for (int n = taken(at->operation); n > 0; n--)
            Py_DECREF(stack[top--]);
        if (made == NULL)
            goto done;
        stack[++top] = made;
    }
    holds = PyObject_IsTrue(stack[top]) == 1;
done:
    while (top >= 0)
        Py_DECREF(stack[top--]);
    PyErr_Clear();
    return holds;
}

int
fj_relation_holds(const fj_relation *relation, PyObject *const *temps, const uint16_t *at,
                  int symbols)
{
    int64_t small[16], *numbers = symbols <= 16 ? small : PyMem_Malloc(symbols * sizeof *numbers);
    int fits = numbers != NULL, holds = -1;
    for (int i = 0; i < symbols; i++) {
        PyObject *number = temps[at[i]];
        int overflow = 0;
        if (PyLong_CheckExact(number)) {
            long long found = PyLong_AsLongLongAndOverflow(number, &overflow);
            if (numbers != NULL)
                numbers[i] = found;
            fits &= !overflow;
        }
        else if (PyFloat_CheckExact(number) || PyBool_Check(number)) {
            fits = 0;
        }
        else {
            holds = 0;
        }
    }
    if (holds < 0 && fits)
        holds = run_small(relation, numbers);
    if (numbers != small)
        PyMem_Free(numbers);
    return holds >= 0 ? holds : run_objects(relation, temps, at);
}
