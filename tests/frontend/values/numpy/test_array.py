"""Arrays in captured functions: values, dtypes, strides, memory and identity are NumPy's."""

from __future__ import annotations

import copy
import gc
import importlib
import warnings

import framejit
import numpy as np
import pytest
import torch

from ...semantics.harness import strict_compile, vec


def matrix(rows=3, columns=4, dtype=np.float64):
    return (np.arange(rows * columns).reshape(rows, columns) % 7 + 0.5).astype(dtype)


def same(left, right):
    """Asserts that two results are alike in all that a program can see."""
    assert type(left) is type(right), (left, right)
    if isinstance(left, tuple | list):
        assert len(left) == len(right)
        for pair in zip(left, right, strict=True):
            same(*pair)
    elif isinstance(left, np.ndarray | np.generic):
        assert (left.dtype, left.shape) == (right.dtype, right.shape)
        assert not isinstance(left, np.ndarray) or not left.size or left.strides == right.strides
        np.testing.assert_allclose(right, left, rtol=1e-5)
    elif isinstance(left, torch.Tensor):
        torch.testing.assert_close(right, left)
    else:
        assert left == right


def check(program, *arguments, breaks=0, calls=2, **options):
    """Compares NumPy with compiled code, in the results and in what is left of the arguments."""
    compiled = strict_compile(program, **options)
    for _ in range(calls):
        left, right = copy.deepcopy(arguments), copy.deepcopy(arguments)
        expected, found = program(*left), compiled(*right)
        same(expected, found)
        same(left, right)
        assert [expected is one for one in left] == [found is one for one in right]
    report = compiled.framejit.explain()
    if breaks is not None:
        assert len(report.breaks) == breaks, [one.reason for one in report.breaks]
        assert breaks or any(one.ops for one in report.captures)
    return report


def standardise(a):
    return np.sin(a) * 2 + a.sum(axis=0)


def softmax(a):
    e = np.exp(a - a.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def attributes(a):
    return a.shape, a.ndim, a.size, a.dtype, a.itemsize, a.nbytes, a.strides, len(a), a.sum()


def kinds(a):
    return isinstance(a, np.ndarray), type(a).__name__, isinstance(a.sum(), float), a.dtype == np.float64, a + 1  # fmt: skip


def scalars(a):
    total = a.sum()
    return total, total * 2, a / total, a[0, 1], np.float32(2) * a, total > 3, -total, abs(a)


def views(a):
    return a[1:], a.T, a.reshape(-1), a[:, ::2], a.ravel(), a[0], a.swapaxes(0, 1), a[..., 1]


def copies(a):
    return a.copy(), a.flatten(), a.astype(np.float32), a.T.copy(), a.astype(int), np.array(a)


def joined(a):
    return np.concatenate([a, a * 2], axis=1), np.stack([a, a]), np.vstack((a, a)), np.where(a > 2, a, 0.0)  # fmt: skip


def selected(a):
    return a[a > 2], a[np.array([2, 0])], a[[1, 1]], np.take(a, [0, 2], axis=1), np.sort(a, axis=0)


def algebra(a):
    square = a @ a.T + np.eye(len(a))
    return square, np.linalg.inv(square), np.linalg.norm(a), np.dot(a, a[0]), np.einsum("ij,kj->ik", a, a)  # fmt: skip


def reductions(a):
    return a.mean(), a.std(axis=0), a.var(axis=1, ddof=1), a.min(), a.argmax(), a.argmin(axis=1), a.any(), np.prod(a[0]), np.cumsum(a, axis=1)  # fmt: skip


def made(a):
    return (
        np.zeros((2, 3)),
        np.ones(3) + np.arange(3),
        np.full((2,), 7.0),
        np.zeros_like(a),
        np.array([1.0, 2.0]) * a[0, 0],
    )


def rows(a):
    total = 0.0
    for row in a:
        total = total + row.max()
    return total, [row * 2 for row in a]


def unpacked(a):
    first, *others = a
    return first + 1, others


def own_writes(a):
    b = np.zeros(a.shape)
    b[:, 1] = 3
    b += a
    b[0] = a[1]
    return b


def in_place(a):
    a += 1.5
    a[1] = a[0] / 2
    a[a > 3] = 0.5
    np.multiply(a, 2, out=a)
    return a * 2


def in_a_loop(a):
    for i in range(1, len(a)):
        a[i] = a[i - 1] * 0.5 + i
    return a.sum()


def spaced(a):
    return np.linspace(0, 1, 4) * a, np.linspace(a[0, 0], a[1, 1], 5), np.linspace(1, 9, 3, dtype=int), np.linspace(2, 3, 4, endpoint=False, dtype=np.float32)  # fmt: skip


def ordered(a):
    b = a + np.arange(12).reshape(3, 4) * 0.01
    return np.argsort(b), b.argsort(axis=0), np.argsort(-b, axis=None), np.argsort(a, kind="stable")


def found_elements(a):
    rows, columns = np.where(a > 2)
    return rows, columns, a[rows, columns], np.nonzero(a), np.argwhere(a > 2), np.flatnonzero(a > 2), (a > 2).nonzero()  # fmt: skip


def masked(a):
    b = a[a > 2]
    c = a.copy()
    c[c > 2] = c[c > 2] * 3
    return b.mean(), b.max(), (b - b.min()) / b.std(), b * b, len(b), c


def statistics(a):
    return np.median(a), np.percentile(a, 30), np.quantile(a, 0.3), np.median(a, axis=0)


def diagonals(a):
    d = np.diag(a[:, :3])
    return d, d * 2, a.diagonal() + 1, d.copy(), d[1:], np.trace(a)


def from_literals(a):
    return np.hanning(4) * a, np.tri(3) @ a, np.identity(3) @ a, np.tril_indices(3), np.reshape(a, -1), np.indices((2, 2))  # fmt: skip


def filled_diagonal(a):
    np.fill_diagonal(a, 7)
    return a + 1


def number(a):
    return a * float(a.sum()), a.max().item()


PROGRAMS = [standardise, softmax, attributes, kinds, scalars, views, copies, joined, selected, algebra, reductions,
            made, rows, unpacked, own_writes, number, in_place, in_a_loop, spaced, ordered, found_elements, masked,
            statistics, diagonals, from_literals, filled_diagonal]  # fmt: skip


@pytest.mark.parametrize("backend", ["eager", "native"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_one_graph(program, backend):
    check(program, matrix(), backend=backend)


@pytest.mark.parametrize(
    "dtype", "bool int8 int16 int32 int64 uint8 float16 float32 float64 complex128".split()
)
def test_dtypes(dtype):
    check(lambda a: (a[1:], a.T, a == 1, np.concatenate([a, a])), matrix(dtype=dtype))
    check(lambda a: (a + a, a * 2, a + 1.5, a.sum(), a.sum(axis=0)), matrix(dtype=dtype), breaks=None)  # fmt: skip


def refused(kind):
    a = matrix()
    if kind == "read-only":
        a.flags.writeable = False
    return {
        "read-only": a,
        "negative strides": a[::-1],
        "byte order": a.astype(">f8"),
        "objects": a.astype(object),
        "text": np.array(["a", "b"]),
        "structured": np.zeros(3, [("x", float)]),
        "longlong": a.astype(np.longlong),
        "uint16": a.astype(np.uint16),
        "longdouble": a.astype(np.longdouble),
        "matrix": a.view(np.matrix),
        "masked": np.ma.masked_array(np.arange(3.0), [0, 1, 0]),
    }[kind]


@pytest.mark.parametrize("kind", ["read-only", "negative strides", "byte order", "objects", "longlong", "uint16", "longdouble", "matrix", "masked"])  # fmt: skip
def test_an_array_that_no_graph_takes(kind):
    compiled, array = strict_compile(lambda a, x: (a + a, x * 2)), refused(kind)
    expected = array + array
    found = compiled(array, vec(2))[0]
    assert type(found) is type(expected) and found.dtype == expected.dtype
    assert found.dtype.char == expected.dtype.char
    assert np.array_equal(expected, found) and found.strides == expected.strides
    assert compiled.framejit.explain().breaks
    same(compiled(matrix(), vec(2))[0], matrix() * 2)  # and one that it takes has its own entry


def test_another_layout_dtype_or_class_is_another_entry():
    compiled = strict_compile(standardise)
    a = matrix(4, 4)
    read_only = a.copy()
    read_only.flags.writeable = False
    for other in (a, a.T, a[::2], a[:, ::2], a.astype(np.float32), a[::-1], read_only, a[0], a):
        same(standardise(other), compiled(other))


def test_sizes_become_dynamic():
    compiled = strict_compile(standardise)
    for rows in range(2, 9):
        same(standardise(matrix(rows)), compiled(matrix(rows)))
    assert len(compiled.framejit.explain().captures) == 2


def test_arrays_of_the_program():
    class Holder:
        weight = matrix()

    holder, closed = Holder(), matrix() * 3
    holder.bias = matrix()[0]

    def program(a):
        holder.last = a * 2
        return a * holder.weight + holder.bias + closed, {"a": a.sum()}, [a + 1, (a,)]

    expected, last = program(matrix()), holder.last
    compiled = strict_compile(program, fullgraph=True)
    found = compiled(matrix())
    same(expected[0], found[0])
    same(last, holder.last)
    same([*expected[1].values(), expected[2]], [*found[1].values(), found[2]])
    holder.weight = matrix() * 5
    same(program(matrix())[0], compiled(matrix())[0])


# memory


def through_numpy(x):
    a = x.numpy()
    y = x * 2
    a[0] = 5.0
    z = torch.from_numpy(a)
    z.mul_(2)
    return x, y, a, z


def through_torch(a):
    t = torch.from_numpy(a)
    t[0] = 7
    a[1] = 3
    return t + 1, torch.as_tensor(a), torch.tensor(a), np.asarray(t), a


@pytest.mark.parametrize("backend", ["eager", "native"])
@pytest.mark.parametrize("program, argument", [(through_numpy, vec(3)), (through_torch, matrix())])
def test_shared_memory(program, argument, backend):
    compiled = strict_compile(program, backend=backend, fullgraph=True)
    for _ in range(2):
        left, right = copy.deepcopy(argument), copy.deepcopy(argument)
        expected, found = program(left), compiled(right)
        same(expected, found)
        same(left, right)
        addresses = [[address(one) - address(left) for one in expected if shares(one, left)],
                     [address(one) - address(right) for one in found if shares(one, right)]]  # fmt: skip
        assert addresses[0] == addresses[1]


def address(obj):
    return obj.ctypes.data if isinstance(obj, np.ndarray) else obj.data_ptr()


def shares(one, other):
    return np.shares_memory(np.asarray(one), np.asarray(other))


def test_views_share_memory_and_copies_do_not():
    compiled = strict_compile(lambda a: (views(a), copies(a)), fullgraph=True)
    for _ in range(2):
        a = matrix()
        shared, copied = compiled(a)
        assert all(np.shares_memory(one, a) for one in shared)
        assert not any(np.shares_memory(one, a) for one in copied)
        a[:] = 0
        assert not any(one.any() for one in shared)


def test_overlapping_arguments():
    def program(a, b):
        b[0] = 9
        return a * 2

    compiled = strict_compile(program)
    for first, second in ((slice(0, 3), slice(3, 6)), (slice(0, 3), slice(1, 4)), (slice(0, 3), slice(0, 3))):  # fmt: skip
        left, right = np.arange(6), np.arange(6)
        same(program(left[first], left[second]), compiled(right[first], right[second]))
        same(left, right)
    same(program(*[np.arange(6)] * 2), compiled(*[np.arange(6)] * 2))


def test_a_result_outlives_its_argument():
    compiled = strict_compile(lambda a: a[1:], fullgraph=True)
    found = compiled(matrix())
    gc.collect()
    same(matrix()[1:].copy(), found.copy())


# what NumPy warns of and raises


WARNING = {
    "divide": (lambda a: 1 / a, [1.0, 0.0]),
    "log": (np.log, [1.0, -1.0]),
    "overflow": (lambda a: np.exp(a) * 2, [1.0, 1000.0]),
    "sum": (lambda a: a.sum(), [1e308, 1e308]),
    "hidden": (lambda a: 1 / (1 / a), [1.0, 0.0]),
    "cast": (lambda a: a.astype(np.int32), [1.0, 1e20]),
    "narrowed": (lambda a: a.astype(np.float32), [1.0, 1e300]),
    "mean": (lambda a: np.mean(a[2:]), [1.0, 2.0]),
}


@pytest.mark.parametrize("program, numbers", WARNING.values(), ids=WARNING)
def test_warnings(program, numbers):
    compiled = strict_compile(program)
    for given in ([1.0, 2.0], numbers, [1.0, 2.0], numbers, numbers):
        array = np.array(given)
        outcomes = []
        for function in (program, compiled):
            with warnings.catch_warnings(record=True) as warned:
                warnings.simplefilter("always")
                result = function(array.copy())
            outcomes.append((result, sorted({str(one.message) for one in warned})))
        same(*(one[0] for one in outcomes))
        assert outcomes[0][1] == outcomes[1][1]


def test_numbers_that_are_not_finite_stay_right():
    compiled = strict_compile(lambda a: (a * 2, np.nan_to_num(a), np.isnan(a), a.max(), a[a > 0]))
    for _ in range(4):
        array = np.array([1.0, np.nan, np.inf])
        same([array * 2, np.nan_to_num(array), np.isnan(array), array.max(), array[array > 0]],
             list(compiled(array)))  # fmt: skip


@pytest.mark.parametrize("state", [{"all": "raise"}, {"divide": "raise"}, {"under": "raise"}])
def test_errstate(state):
    compiled = strict_compile(lambda a, b: a / b)
    arrays = np.array([1.0, 1e-300]), np.array([2.0, 1e300]), np.array([0.0, 1.0])
    same(arrays[0] / 2, compiled(arrays[0], np.array([2.0, 2.0])))
    for divisor in arrays[1:]:
        outcomes = []
        for function in (lambda a, b: a / b, compiled):
            with np.errstate(**{"all": "ignore", **state}):
                try:
                    outcomes.append(function(arrays[0], divisor))
                except FloatingPointError as error:
                    outcomes.append(str(error))
        same(*outcomes)


@pytest.mark.parametrize(
    "program, error",
    [
        (lambda a: a[5], IndexError),
        (lambda a: a @ a, ValueError),
        (lambda a: a.reshape(5), ValueError),
        (lambda a: a.no_such, AttributeError),
        (lambda a: np.linalg.inv(a[:, :3] * 0), np.linalg.LinAlgError),
        (lambda a: a[np.array([9])], IndexError),
        (lambda a: bool(a), ValueError),
        (lambda a: a.astype(int) ** np.array([-1, 1, 1, 1]), ValueError),
        (lambda a: {a: 1}, TypeError),
    ],
)
def test_exceptions(program, error):
    compiled = strict_compile(program)
    with pytest.raises(error) as expected:
        program(matrix())
    for _ in range(2):
        with pytest.raises(error) as found:
            compiled(matrix())
        assert str(found.value) == str(expected.value)


def divided(a, b):
    a /= b
    a[0] += 1
    return a.sum()


def reciprocal_elsewhere(a, b):
    b *= 2
    return 1 / a, b.sum()


@pytest.mark.parametrize("backend", ["eager", "native"])
@pytest.mark.parametrize("program", [divided, reciprocal_elsewhere])
def test_writes_are_undone_where_numpy_warns(program, backend):
    compiled = strict_compile(program, backend=backend)
    for number in (1.0, 2.0, 0.0, 1.0, 0.0, 0.0, 2.0):
        outcomes = []
        for function in (program, compiled):
            arrays = np.array([1.0, number]), np.array([2.0, number])
            with warnings.catch_warnings(record=True) as warned:
                warnings.simplefilter("always")
                result = function(*arrays)
            outcomes.append((result, arrays, sorted({str(one.message) for one in warned})))
        assert outcomes[0][2] == outcomes[1][2]
        np.testing.assert_equal(outcomes[0][:2], outcomes[1][:2])


def test_argsort_of_equal_numbers_is_numpys():
    def program(a):
        return np.argsort(a), a + 1

    compiled = strict_compile(program)
    rng = np.random.default_rng(0)
    for size in (40, 40, 3):
        for numbers in (rng.normal(size=size), rng.integers(0, 5, size).astype(float)):
            same(program(numbers), compiled(numbers))


@pytest.mark.parametrize("numbers", [[3.0, 0.0, 1.0], [0.0, 0.0, 0.0], [0.0, 2.0, 0.0]])
def test_sizes_that_values_decide(numbers):
    """Also of one element and of none, where NumPy broadcasts, warns or raises."""

    def program(a):
        b = a[a > 0]
        return b * 2, b.sum(), np.nonzero(a)[0], b + a[0]

    def largest(a):
        b = a[a > 0]
        return b.max(), b + np.arange(3.0)

    for function in (program, largest):
        compiled = strict_compile(function)
        for given in ([1.0, 2.0, 3.0], numbers, [4.0, 1.0, 2.0], numbers):
            outcomes = []
            for one in (function, compiled):
                try:
                    outcomes.append(one(np.array(given)))
                except ValueError as error:
                    outcomes.append(str(error))
            same(*outcomes)


def test_a_read_only_view_stays_one():
    def program(a):
        d = a.diagonal()
        return d, d[1:], d.copy(), np.diag(a), d * 2

    def written(a):
        d = np.diag(a)
        d[0] = 1
        return d

    compiled = strict_compile(program, fullgraph=True)
    for _ in range(2):
        a = matrix(3, 3)
        found = compiled(a)
        assert [one.flags.writeable for one in found] == [one.flags.writeable for one in program(a)]
        assert [np.shares_memory(one, a) for one in found] == [True, True, False, True, False]
    for function in (written, strict_compile(written)):
        with pytest.raises(ValueError, match="read-only"):
            function(matrix(3, 3))


@pytest.mark.parametrize(
    ("program", "breaks"),
    [
        (lambda a, rng: a * rng.random(4), 1),
        (lambda a, rng: a + rng.normal(0, 1, 4) + rng.uniform(), 2),
        (lambda a, rng: a[rng.permutation(4)], 1),
        (lambda a, rng: a * np.random.rand(4), 1),
        (lambda a, rng: a * np.random.default_rng(3).random(), 2),
    ],
)
def test_random_numbers_are_one_break_each(program, breaks):
    compiled = strict_compile(program)
    pairs = [np.random.default_rng(0) for _ in range(2)]
    for _ in range(5):
        state = np.random.get_state()
        expected = program(np.arange(4.0), pairs[0])
        np.random.set_state(state)
        same(expected, compiled(np.arange(4.0), pairs[1]))
    report = compiled.framejit.explain()
    assert len(report.breaks) == breaks and len(report.captures) <= 2 * breaks + 1


def test_a_number_that_is_written_varies():
    def program(a, x):
        a[1] = x
        return a * 2

    compiled = strict_compile(program)
    for x in (0.5, 1.5, 2.5, 3.5):
        left, right = np.arange(4.0), np.arange(4.0)
        same(program(left, x), compiled(right, x))
        same(left, right)
    assert len(compiled.framejit.explain().captures) == 2


# what stays NumPy's


def branches(a):
    return a * 2 if a.sum() > 3 else a


def printed(a):
    b = a * 2
    text = f"{b.sum():.3f} {b}"
    return text, str(b), repr(b[0]), b + 1


def seeded(a):
    rng = np.random.default_rng(0)
    return a + rng.normal(size=a.shape)


def with_errstate(a):
    with np.errstate(all="ignore"):
        b = np.log(a - 0.5)
    return b + 1


LEFT = [branches, printed, seeded, with_errstate]


@pytest.mark.parametrize("program", LEFT, ids=lambda program: program.__name__)
def test_breaks(program):
    assert check(program, matrix(), breaks=None).breaks


def test_autocast_and_default_device():
    compiled = strict_compile(lambda a: a @ a.T)
    for dtype in (np.float32, np.float64):
        a = matrix(dtype=dtype)
        with torch.autocast("cpu"):
            same(a @ a.T, compiled(a))
        same(a @ a.T, compiled(a))
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        same(matrix(dtype=np.float32) * 2.5, strict_compile(lambda a: a * 2.5)(matrix(dtype=np.float32)))  # fmt: skip
    finally:
        torch.set_default_dtype(before)


@pytest.mark.parametrize("package, line", [("scipy.special", "expit(a)"), ("scipy.linalg", "det(a[:, :3])"), ("sklearn.preprocessing", "scale(a)")])  # fmt: skip
def test_other_packages_break_at_their_line(package, line):
    module = importlib.import_module(package)
    namespace = {"np": np, "module": module}
    exec(
        f"def program(a):\n    b = np.sin(a)\n    c = module.{line}\n    return b + 1, c", namespace
    )
    report = check(namespace["program"], matrix(), breaks=None)
    assert {one.where for one in report.breaks if one.function == "program"} == {"<string>:3"}


@pytest.mark.parametrize("dtype", ["bool", "int32", "int64"])
@pytest.mark.parametrize(
    "program",
    [
        lambda a: (a / 2, 2 / a, a / True, a / np.int64(3)),
        lambda a: (a / a, a / a.sum(), a.sum() / a.max(), a.max() / 2),
        lambda a: (np.divide(a, 3), np.true_divide(a, a), a / 2.5, a / np.float32(2)),
        lambda a: (a / a[:, :1], a[::-1] / a.shape[0]),
    ],
)
def test_integers_are_divided_as_float64(program, dtype):
    check(program, (np.arange(12).reshape(3, 4) % 5 + 1).astype(dtype))


def test_asanyarray_of_arrays_numbers_and_tensors():
    def program(a, x):
        made = np.asanyarray([1, 2, 3], dtype="int32"), np.asanyarray(3.5), np.asanyarray(x)
        return np.asanyarray(a) is a, np.asanyarray(a * 2, np.float32), *made

    compiled = framejit.compile(program, backend="eager", fullgraph=True)
    for rows in (2, 3):
        same(program(matrix(rows), vec(rows)), compiled(matrix(rows), vec(rows)))
