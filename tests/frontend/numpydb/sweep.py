"""NumPy's functions, compiled, against NumPy: each function of torch._numpy that the capture uses, and
each method of arrays, with arguments that NumPy accepts. `sweep.py float64,int64 3 eager`
prints the counts, and what differs.

Arguments are no table a function: every call of the list below is tried that NumPy takes.
"""

from __future__ import annotations

import copy
import operator
import sys
import warnings
from collections import Counter
from dataclasses import dataclass, field

import framejit
import numpy as np
from framejit.frontend.values.numpy.torch_numpy import NAMESPACES, implementations, torch_numpy

DTYPES = "float64 float32 int64 complex128 bool float16 int32 uint8 int8 complex64 int16".split()
EXACT = {"float16": 5e-3, "float32": 2e-5, "complex64": 2e-5}  # relative tolerances
METHODS = """
    sum prod mean var std max min argmax argmin any all cumsum cumprod clip round ptp nonzero
    repeat squeeze swapaxes ravel diagonal dot trace argsort searchsorted take choose
    reshape transpose flatten copy astype conj sort fill item tolist T real imag
""".split()  # fmt: skip
OPERATORS = """
    __add__ __sub__ __mul__ __truediv__ __floordiv__ __mod__ __pow__ __matmul__ __and__ __or__
    __xor__ __lshift__ __rshift__ __lt__ __le__ __eq__ __ne__ __gt__ __ge__ __neg__ __pos__ __invert__
    __iadd__ __isub__ __imul__ __itruediv__ __ifloordiv__ __imod__ __ipow__ __iand__ __ior__ __ixor__
    __getitem__ __abs__
""".split()  # fmt: skip


def functions():
    """The callables by name."""
    known = implementations()
    found = {}
    for namespace in NAMESPACES:
        original = getattr(np, namespace) if namespace else np
        mapped = getattr(torch_numpy(), namespace) if namespace else torch_numpy()
        for name in vars(mapped):
            function = getattr(original, name, None)
            if id(function) in known:
                found[f"{namespace}.{name}".lstrip(".")] = function
    return found


def methods():
    found = {f"array.{name}": method(name) for name in METHODS}
    for name in OPERATORS:
        plain = name.strip("_")
        function = getattr(operator, name, None)
        if function is None:
            continue
        found[f"array {plain}"] = operator_call(function)
    return found


UNDEFINED = frozenset({"empty", "empty_like"})  # their elements have no values


def method(name):
    if name in ("T", "real", "imag"):
        namespace = {}
        exec(f"def call(a):\n    return a.{name}", namespace)
        return namespace["call"]
    namespace = {}
    exec(f"def call(a, *args, **kwargs):\n    return a.{name}(*args, **kwargs)", namespace)
    return namespace["call"]


def operator_call(function):
    def call(*args):
        return function(*args)

    return call


def arrays(dtype):
    rng = np.random.default_rng(7)

    def make(*shape):
        numbers = rng.normal(size=shape) * 3
        if dtype == "bool":
            return numbers > 0
        if dtype.startswith(("int", "uint")):
            return np.abs(numbers).round().astype(dtype) % 5 + 1
        if dtype.startswith("complex"):
            return (numbers + 1j * rng.normal(size=shape)).astype(dtype)
        return numbers.astype(dtype)

    return make


def unit(dtype):
    """Numbers between 0 and 1, or ones."""
    if dtype.startswith(("float", "complex")):
        return (np.arange(9).reshape(3, 3) ** 2 % 7 / 10 + np.eye(3) / 4 + 0.1).astype(dtype)
    return np.ones((3, 3), dtype)


def calls(dtype):
    """Arguments to try."""
    make = arrays(dtype)
    a, b, m, n, t = make(4), make(4), make(3, 3), make(3, 3), make(2, 3, 4)
    index = np.array([0, 2, 1])
    yield (unit(dtype),), {}
    yield (m,), {}
    yield (a,), {}
    yield (a, b), {}
    yield (m, n), {}
    yield (t,), {"axis": 1}
    yield (m, 2), {}
    yield (m, 0.5), {}
    yield (m.T,), {}
    yield (m.T, n), {}
    yield (t[:, ::2],), {}
    yield (2, m), {}
    yield (m, make(3)), {}
    yield ([a, b],), {}
    yield ([m, n],), {"axis": 1}
    yield (t,), {"axis": (0, 2), "keepdims": True}
    yield (t,), {"axis": -1, "keepdims": True}
    yield (m, np.float32(1.5)), {}
    yield (m, np.int64(2)), {}
    yield (m, make(3, 3).astype("float32")), {}
    yield (m,), {"dtype": np.float32}
    yield (m, "float32"), {}
    yield (m, int), {}
    yield (m > 1, m, n), {}
    yield (m > 1, m, 0), {}
    yield (m, index), {}
    yield (m, (1, 9)), {}
    yield (m, (9,)), {}
    yield (m, -1), {}
    yield (m, 1, 0), {}
    yield (m, 0, 1), {}
    yield (m, index, 0), {}
    yield (m, index[:, None], 1), {}
    yield (m, (slice(1, None), 0)), {}
    yield (m, (slice(None), slice(None, None, 2))), {}
    yield (m, (0, 1)), {}
    yield (m, slice(None, None, -1)), {}
    yield (m, m > 1), {}
    yield (m, None), {}
    yield (m, (slice(None), index)), {}
    yield (np.sort(a), b), {}
    yield (a, 3), {}
    yield (a, [1, 3]), {}
    yield (m, n), {"out": make(3, 3)}
    yield (m,), {"out": make(3, 3)}
    yield (3,), {}
    yield ((2, 3),), {}
    yield ((2, 3), 7), {}
    yield ((2, 3),), {"dtype": dtype}
    yield (1, 9, 4), {}
    yield (0.5,), {}
    yield ("ij,jk->ik", m, n), {}
    yield ("ij->j", m), {}
    yield (make(3, 3) * 0,), {}
    yield (make(0),), {}
    yield (np.array(make(1)[0]),), {}
    yield (make(1, 3), make(3, 1)), {}
    yield (t, make(4)), {}


@dataclass
class Count:
    captured: Counter = field(default_factory=Counter)
    broken: Counter = field(default_factory=Counter)
    reasons: dict = field(default_factory=dict)
    different: list = field(default_factory=list)


def outcome(function, args, kwargs):
    """What a call gives, warns of and leaves in its arguments."""
    args, kwargs = copy.deepcopy((args, kwargs))
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        result = function(*args, **kwargs)
    texts = sorted(str(one.message) for one in warned if issubclass(one.category, RuntimeWarning))
    return result, args, kwargs, texts


def difference(name, expected, found, dtype):
    """How two results differ; None where they do not."""
    if type(expected) is not type(found):
        return f"{name}: {type(found).__name__} for {type(expected).__name__}"
    if isinstance(expected, tuple | list):
        if len(expected) != len(found):
            return f"{name}: length"
        pairs = zip(expected, found, strict=True)
        return next(filter(None, (difference(name, *pair, dtype) for pair in pairs)), None)
    if isinstance(expected, dict):
        return difference(name, list(expected.values()), list(found.values()), dtype)
    if isinstance(expected, np.ndarray | np.generic):
        if expected.dtype != found.dtype or expected.dtype.char != found.dtype.char:
            return f"{name}: {found.dtype} for {expected.dtype}"
        if expected.shape != found.shape:
            return f"{name}: shape {found.shape} for {expected.shape}"
        if isinstance(expected, np.ndarray) and steps(expected) != steps(found):
            return f"{name}: strides {found.strides} for {expected.strides}"
        if isinstance(expected, np.ndarray) and expected.flags.writeable != found.flags.writeable:
            return f"{name}: writeable"
        if expected.dtype.kind in "fc":
            tolerance = EXACT.get(expected.dtype.name, EXACT.get(dtype, 1e-10))
            scale = np.nanmax(np.abs(expected), initial=0, where=np.isfinite(expected))
            close = np.allclose(found, expected, rtol=tolerance, atol=tolerance * float(scale) + 1e-12, equal_nan=True)  # fmt: skip
        else:
            close = np.array_equal(expected, found)
        return None if close else f"{name}: {found!r} for {expected!r}"
    return (
        None if expected == found or expected != expected else f"{name}: {found!r} for {expected!r}"
    )


def steps(array):
    """The strides of dimensions that have some."""
    return [stride for stride, size in zip(array.strides, array.shape, strict=True) if size > 1]


def shared(result, args):
    """Which arguments a result shares memory with."""
    results = result if isinstance(result, tuple | list) else [result]
    return [
        [isinstance(one, np.ndarray) and isinstance(arg, np.ndarray) and np.shares_memory(one, arg) for arg in args]
        for one in results
    ]  # fmt: skip


def identical(result, args, kwargs):
    """Which arguments a result is. (Whether texts are one object is Python's business.)"""
    return [result is arg for arg in (*args, *kwargs.values()) if not isinstance(arg, str)]


def measure(name, function, dtype, most, count, compiler, backend="eager"):
    """Runs up to `most` calls of a function that NumPy takes."""
    taken = 0
    for args, kwargs in calls(dtype):
        if taken == most:
            return
        try:
            expected = outcome(function, args, kwargs)
        except Exception:
            continue
        if not touches_arrays(expected[0], args):
            continue
        taken += 1

        def program(*args, **kwargs):
            return function(*args, **kwargs)  # noqa: B023

        compiled = compiler(program, backend=backend)
        label = f"{name} {dtype} {describe(args)} {describe(kwargs)}"
        try:
            found = outcome(compiled, args, kwargs)
        except Exception as error:
            count.different.append(f"{label}: raises {type(error).__name__}: {error}"[:600])
            continue
        wrong = (
            difference("result", expected[0], found[0], dtype)
            or difference("arguments", expected[1], found[1], dtype)
            or difference("keywords", expected[2], found[2], dtype)
            or (f"warnings {found[3]} for {expected[3]}" if found[3] != expected[3] else None)
        )
        if not wrong and shared(expected[0], expected[1]) != shared(found[0], found[1]):
            wrong = "sharing of memory"
        if not wrong and identical(*expected[:3]) != identical(*found[:3]):
            wrong = "identity"
        if wrong:
            count.different.append(f"{label}: {wrong}"[:600])
        report = compiled.framejit.explain()
        if report.breaks or not report.captures or not any(one.ops for one in report.captures):
            count.broken[name] += 1
            count.reasons.setdefault(name, (label, [b.reason for b in report.breaks][:1]))
        else:
            count.captured[name] += 1


def touches_arrays(result, args):
    """Whether there is any array; functions of numbers are folded."""
    items = [result, *args]
    return any(
        isinstance(one, np.ndarray) or (isinstance(one, list | tuple) and any(isinstance(part, np.ndarray) for part in one))
        for one in items
    )  # fmt: skip


def describe(value):
    if isinstance(value, np.ndarray):
        return f"{value.dtype}{list(value.shape)}"
    if isinstance(value, tuple | list):
        return f"({', '.join(map(describe, value))})"
    if isinstance(value, dict):
        return ", ".join(f"{key}={describe(item)}" for key, item in value.items())
    return getattr(value, "__name__", repr(value))


def everything_but_undefined():
    found = functions() | methods()
    return {name: one for name, one in found.items() if name not in UNDEFINED}


def main(dtypes, most, backend):
    count = Count()
    everything = everything_but_undefined()
    for name, function in everything.items():
        for dtype in dtypes:
            measure(name, function, dtype, most, count, framejit.compile, backend)
        framejit.reset()
    whole = [name for name in everything if count.captured[name] and not count.broken[name]]
    part = [name for name in everything if count.captured[name] and count.broken[name]]
    none = [name for name in everything if not count.captured[name] and count.broken[name]]
    for line in count.different:
        print("DIFFERENT", line)
    for name in none:
        print("BROKEN", name, count.reasons[name])
    print(f"{len(everything)} functions: {len(whole)} captured in each call, {len(part)} in some, {len(none)} in none")  # fmt: skip
    print(f"calls: {sum(count.captured.values())} captured, {sum(count.broken.values())} broken, {len(count.different)} different")  # fmt: skip


if __name__ == "__main__":
    main(sys.argv[1].split(","), int(sys.argv[2]), sys.argv[3])
