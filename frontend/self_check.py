"""The self-check: finds out what works with a torch or Python that is newer than the tested ones.

It runs once per installation, at the first compile(), and takes about a second besides the imports
of a first capture. It compiles small functions, compares them with eager, and stores the result in
the cache folder, by versions. If a `needed` check fails, everything runs in eager; any other failed
check switches its feature off. A check that ends the process counts as failed in the next process.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from filelock import FileLock, Timeout

from ..backends.autotune.identity import framejit_version
from ..backends.graph.random_states import random_states_kept
from ..backends.registry import lookup
from ..errors import warn_user
from ..guards.native import fingerprint, layout
from ..options import Options, config
from ..records import record
from ..torch_compat import (
    AUTOGRAD_FUNCTION,
    DYNAMIC_SIZES,
    MODE_FINGERPRINT,
    SWITCHED_OFF,
    TENSOR_LAYOUT,
    backend_feature,
    switch_off,
)
from .support import installed_versions, is_tested_here
from .tracing.fake_tensors.cuda_guard import ensure_cuda_guard
from .values.models import ensure_models

FOLDER = "self_check"
LOCK_TIMEOUT_S = 60.0  # seconds to wait for another process that runs it
Compile = Callable[[Any, Options], Any]  # (function, options) -> compiled function


class CheckFailed(Exception):  # noqa: N818 - the outcome of a check
    """Compiled code gave something else than eager."""


@record
class Check:
    """One feature, and a function that raises where the feature does not work."""

    feature: str
    run: Callable[[Compile], None]
    needed: bool = False  # whether framejit is useless without it


def refusal(compile_function: Compile) -> str:
    """Why nothing can be compiled with the installed torch and Python; "" if something can."""
    if is_tested_here():
        return ""
    failed = features_off(compile_function)
    return next(
        (
            refusal_text(feature, failed[feature])
            for feature in needed_features()
            if feature in failed
        ),
        "",
    )


def features_off(compile_function: Compile) -> dict[str, str]:
    """The features that are off, with the reason. Determined once."""
    with _lock:
        if not _failed:
            _failed.append(failed_checks(compile_function))
    return _failed[0]


def needed_features() -> frozenset[str]:
    return frozenset(check.feature for check in CHECKS if check.needed)


_lock = threading.Lock()
_failed: list[dict[str, str]] = []  # the result of this process, once known


def refusal_text(feature: str, why: str) -> str:
    return (
        f"{installed_versions()} is newer than framejit and failed its self-check ({feature}: "
        f"{why})"
    )


def failed_checks(compile_function: Compile) -> dict[str, str]:
    """Runs the checks, or reads their result from the cache folder, and switches off what failed.
    Returns the failed features with reasons."""
    record = CheckResultFile(config.cache_dir / FOLDER / f"{file_name()}.json")
    failed = record.read()
    if failed is None:
        with record.hold_lock():
            failed = record.read()  # another process may have checked meanwhile
            if failed is None:
                failed = run_checks(compile_function, record)
                warn_user(warning_text(failed), stacklevel=4)
    for feature, why in failed.items():
        switch_off(feature, why)
    return failed


def file_name() -> str:
    return re.sub(r"[^\w.+-]+", "-", f"{installed_versions()} framejit {framejit_version()}")


def warning_text(failed: dict[str, str]) -> str:
    """The text of the one warning."""
    opening = f"{installed_versions()} is newer than what framejit was tested with; "
    if not failed:
        return opening + "its self-check passed, so it is used"
    off = "; ".join(f"{feature} ({why})" for feature, why in failed.items())
    if needed_features() & failed.keys():
        return opening + f"its self-check failed, so everything runs in eager: {off}"
    return opening + f"its self-check passed, but these features are off: {off}"


class CheckResultFile:
    """What a self-check has found, in a file. `running` names the check in progress: if it ends the
    process, the next one finds its name there."""

    def __init__(self, path: Path) -> None:
        self.path, self.running = path, path.with_suffix(".running")

    @contextmanager
    def hold_lock(self) -> Iterator[None]:
        """Lets one process check at a time. Without a writable folder, each process checks for
        itself."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            lock = FileLock(self.path.with_suffix(".lock"))
            lock.acquire(LOCK_TIMEOUT_S)
        except (OSError, Timeout):
            yield
            return
        try:
            yield
        finally:
            lock.release()

    def read(self) -> dict[str, str] | None:
        """The features that failed, None where nothing is known."""
        try:
            found = json.loads(self.path.read_text())
        except (OSError, ValueError):
            return None
        return found if isinstance(found, dict) else None

    def write(self, failed: dict[str, str]) -> None:
        try:
            self.path.write_text(json.dumps(failed, indent=1))
            self.running.unlink(missing_ok=True)
        except OSError:
            return

    def read_crashed_run(self) -> dict[str, str]:
        """What a process that ended in the middle of it had found, the check that it ended in among
        it."""
        try:
            found: dict[str, str] = json.loads(self.running.read_text())
        except (OSError, ValueError):
            return {}
        return found

    def note_start(self, feature: str, failed: dict[str, str]) -> None:
        """Notes that a check begins."""
        try:
            self.running.write_text(json.dumps(failed | {feature: "it ended the process"}))
        except OSError:
            return


def run_checks(compile_function: Compile, record: CheckResultFile) -> dict[str, str]:
    """Runs all checks in a separate thread, where none of the program's modes are on. Returns the
    failed features with reasons."""
    ensure_cuda_guard()  # a check creates a fake tensor mode in a thread that ends
    failed = record.read_crashed_run()
    for feature, why in failed.items():
        switch_off(feature, why)

    def run() -> None:
        """Runs the checks in their order; what fails is switched off."""
        for check in CHECKS:
            if check.feature in failed:
                continue
            record.note_start(check.feature, failed)
            try:
                check.run(compile_function)
            except Exception as error:  # an unknown torch may raise anything
                failed[check.feature] = (
                    str(error)
                    if isinstance(error, CheckFailed)
                    else f"{type(error).__name__}: {error}".partition("\n")[0]
                )
                switch_off(check.feature, failed[check.feature])
                if check.needed:
                    break
        failed.update(
            {feature: why for feature, why in SWITCHED_OFF.items() if feature not in failed}
        )

    thread = threading.Thread(target=run, name="framejit self-check")
    with random_states_kept(()):  # modules that the checks create draw their parameters
        thread.start()
        thread.join()
    record.write(failed)
    return failed


# --- what is compiled ---


def values(*shape: int) -> torch.Tensor:
    """Distinct numbers between -1 and 1."""
    count = torch.Size(shape).numel()
    return torch.linspace(-1, 1, count, dtype=torch.float32, device="cpu").reshape(shape)


def collect(x: torch.Tensor, kept: list[torch.Tensor]) -> torch.Tensor:
    """A loop, a list that changes, a view, and a write into it."""
    y = x.sin()
    for factor in (1, 2):
        kept.append(y * factor)
    rows = y.view(-1)
    rows[:2].mul_(3)
    return y.sum() + rows[0]


def branch(x: torch.Tensor) -> torch.Tensor:
    """A branch on a tensor's value, in the middle."""
    y = x * 2
    if y.sum() > 0:
        y = y + 1
    return y.cos()


def check_captures(compile_function: Compile) -> None:
    ensure_models()
    kept: tuple[list[torch.Tensor], list[torch.Tensor]] = ([], [])
    handle = compile_function(collect, AS_CAPTURED)
    for _ in range(2):
        assert_same(handle(values(2, 3), kept[0]), collect(values(2, 3), kept[1]))
    assert_same(kept[0], kept[1])
    assert_same(handle.framejit.compiles, 1)
    handle = compile_function(branch, AS_CAPTURED)
    for x in (values(3), values(3) + 1, values(3)):
        assert_same(handle(x), branch(x))
    if handle.framejit.compiles < 2:
        raise CheckFailed("nothing is captured after a break")


def check_guards(compile_function: Compile) -> None:
    """Calls that differ in one property each. Code compiled for another call would give another
    type, size or history."""
    handle = compile_function(step, AS_CAPTURED)
    x = values(2, 3)
    for factor in (2.0, -1):
        assert_same(handle(x, factor), step(x, factor))
    others = (x.double(), x.t(), x[:1], x.clone().requires_grad_(), torch.nn.Parameter(x.clone()))
    for argument in others:
        assert_same(handle(argument, 2.0), step(argument, 2.0))
    with torch.no_grad():
        assert_same(handle(x.clone().requires_grad_(), 2.0).requires_grad, False)
    assert_same(handle(x.clone().requires_grad_(), 2.0).requires_grad, True)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert_same(handle(x, 2.0), step(x, 2.0))
    assert_same(handle(x, 2.0), step(x, 2.0))


def step(x: torch.Tensor, factor: float) -> torch.Tensor:
    return (x @ x.t()).relu() * factor + x.size(0)


def check_modules(compile_function: Compile) -> None:
    """A module with parameters, buffers that change, and a gradient."""
    module, other = small_module(), small_module()
    handle = compile_function(lambda x: module(x).square().sum(), AS_CAPTURED)
    for _ in range(2):
        loss, expected = handle(values(4, 3)), other(values(4, 3)).square().sum()
        assert_same(loss, expected)
        loss.backward()
        expected.backward()
    compare_states(module, other)
    module[0].weight = torch.nn.Parameter(values(2, 3) * 3)
    assert_same(handle(values(4, 3)), module(values(4, 3)).square().sum())


def small_module() -> torch.nn.Sequential:
    linear = torch.nn.Linear(3, 2, device="cpu")
    module = torch.nn.Sequential(
        linear, torch.nn.BatchNorm1d(2, affine=False, device="cpu"), torch.nn.GELU()
    )
    with torch.no_grad():
        linear.weight.copy_(values(2, 3))
        linear.bias.copy_(values(2))
    return module


def compare_states(module: torch.nn.Module, other: torch.nn.Module, tolerance: float = 0.0) -> None:
    for (name, ours), theirs in zip(
        module.state_dict().items(), other.state_dict().values(), strict=True
    ):
        assert_same((name, ours), (name, theirs), tolerance)
    for ours, theirs in zip(module.parameters(), other.parameters(), strict=True):
        assert_same(ours.grad, theirs.grad, tolerance)


def check_dynamic_sizes(compile_function: Compile) -> None:
    handle = compile_function(step, AS_CAPTURED)
    for rows in (2, 3, 4, 5):
        assert_same(handle(values(rows, 3), 2.0), step(values(rows, 3), 2.0))
    if handle.framejit.compiles > 2:
        raise CheckFailed(f"four sizes were compiled {handle.framejit.compiles} times")


def check_autograd_functions(compile_function: Compile) -> None:
    """torch.autograd.Function."""
    handle = compile_function(lambda x: DoubleWithOtherGradient.apply(x).sum(), AS_CAPTURED)
    grads = []
    for function in (handle, lambda x: DoubleWithOtherGradient.apply(x).sum()):
        x = values(3).requires_grad_()
        function(x).backward()
        grads.append(x.grad)
    assert_same(grads[0], grads[1])


class DoubleWithOtherGradient(torch.autograd.Function):
    """A function whose gradient differs from the one that torch would derive."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x * 2

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
        return grad * 5


def check_backend(name: str) -> Callable[[Compile], None]:
    """A check of results and gradients of one backend."""

    def check(compile_function: Compile) -> None:
        """Compares a module's results and gradients under the backend with eager's."""
        backend = lookup(name)
        if backend.missing():
            return
        module, other = small_module(), small_module()
        handle = compile_function(
            lambda x: module(x).square().sum(), Options(backend=name, strict=True)
        )
        with torch.no_grad():
            assert_same(handle(values(4, 3)), other(values(4, 3)).square().sum(), TOLERANCE)
        for _ in range(2 if backend.training else 0):
            loss, expected = handle(values(4, 3)), other(values(4, 3)).square().sum()
            assert_same(loss, expected, TOLERANCE)
            loss.backward()
            expected.backward()
        compare_states(module, other, TOLERANCE)

    return check


def check_layout(compile_function: Compile) -> None:
    if layout.layout() is None:
        raise CheckFailed("where tensors keep their facts was not found; Python compares them")


def check_modes(compile_function: Compile) -> None:
    if not fingerprint.calibrate():
        raise CheckFailed("where modes are kept was not found; Python compares them")


def assert_same(ours: Any, theirs: Any, tolerance: float = 0.0) -> None:
    """Raises CheckFailed where two results differ."""
    if isinstance(ours, torch.Tensor) and isinstance(theirs, torch.Tensor):
        facts = [(type(x), x.dtype, x.shape, x.stride(), x.requires_grad) for x in (ours, theirs)]
        if facts[0] != facts[1] or not torch.allclose(ours, theirs, rtol=tolerance, atol=tolerance):
            raise CheckFailed(f"compiled code gave {ours}, eager {theirs}")
    elif isinstance(ours, list | tuple) and isinstance(theirs, list | tuple):
        for one, other in zip(ours, theirs, strict=True):
            assert_same(one, other, tolerance)
    elif ours != theirs:
        raise CheckFailed(f"compiled code gave {ours}, eager {theirs}")


# A limit that no check reaches: beyond it calls run in eager, which would check nothing.
AS_CAPTURED = Options(backend="eager", strict=True, recompile_limit=64)
TOLERANCE = 1e-5
# The other backends are imported when they are used, and are off if that fails: `inductor` and
# `onnxruntime` take long to check, `autotune` and `cudagraphs` compare their results with eager.
BACKENDS = ("aot_eager", "native", "torchscript")
CHECKS = (
    Check(TENSOR_LAYOUT, check_layout),
    Check(MODE_FINGERPRINT, check_modes),
    Check("captures", check_captures, needed=True),
    Check("guards", check_guards, needed=True),
    Check("modules", check_modules, needed=True),
    Check(DYNAMIC_SIZES, check_dynamic_sizes),
    Check(AUTOGRAD_FUNCTION, check_autograd_functions),
    *(Check(backend_feature(name), check_backend(name)) for name in BACKENDS),
)
