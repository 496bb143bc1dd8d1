"""The self-check: what works with a torch or Python that is newer than those the tests have run
with.

It runs once an installation, at the first compile(), and takes about a second more than the imports
of a first capture: small functions are compiled and compared with eager. What it finds is kept in
the cache folder, by versions. A check that is `needed` and fails leaves everything to eager; any
other one switches its feature off. A check that ends the whole process counts as failed for the
next one.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from filelock import FileLock, Timeout

from ..backends.autotune.identity import framejit_version
from ..backends.registry import lookup
from ..errors import warn_user
from ..guards.native import fingerprint, layout
from ..options import Options, config
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
from .tracing.cuda_guard import settle
from .values.models import ensure_models

FOLDER = "self_check"
PATIENCE_S = 60.0  # for another process that runs it
Compile = Callable[[Any, Options], Any]  # (function, options) -> a compiled one


class Wrong(Exception):  # noqa: N818 - what a check found
    """Compiled code gave something else than eager."""


@dataclass(frozen=True)
class Check:
    """One feature, and a function that raises where it does not work."""

    feature: str
    run: Callable[[Compile], None]
    needed: bool = False  # framejit is of no use without it


def refusal(compile_function: Compile) -> str:
    """Why nothing may be compiled with the installed torch and Python, "" where it may."""
    if is_tested_here():
        return ""
    failed = features_off(compile_function)
    return next(
        (statement(feature, failed[feature]) for feature in needed_features() if feature in failed),
        "",
    )


def features_off(compile_function: Compile) -> dict[str, str]:
    """Why features are off, by feature. Found out once."""
    with _lock:
        if not _failed:
            _failed.append(failed_checks(compile_function))
    return _failed[0]


def needed_features() -> frozenset[str]:
    return frozenset(check.feature for check in CHECKS if check.needed)


_lock = threading.Lock()
_failed: list[dict[str, str]] = []  # of this process, once it is known


def statement(feature: str, why: str) -> str:
    return (
        f"{installed_versions()} is newer than framejit and failed its self-check ({feature}: "
        f"{why})"
    )


def failed_checks(compile_function: Compile) -> dict[str, str]:
    """By feature why it is off, as the cache folder says, or the checks that run now. Switches
    these off."""
    record = Record(config.cache_dir / FOLDER / f"{file_name()}.json")
    failed = record.read()
    if failed is None:
        with record.hold_lock():
            failed = record.read()  # another process may have been faster
            if failed is None:
                failed = run_checks(compile_function, record)
                warn_user(report(failed), stacklevel=4)
    for feature, why in failed.items():
        switch_off(feature, why)
    return failed


def file_name() -> str:
    return re.sub(r"[^\w.+-]+", "-", f"{installed_versions()} framejit {framejit_version()}")


def report(failed: dict[str, str]) -> str:
    """The line that is told once."""
    told = f"{installed_versions()} is newer than what framejit was tested with; "
    if not failed:
        return told + "its self-check passed, so it is used"
    off = "; ".join(f"{feature} ({why})" for feature, why in failed.items())
    if needed_features() & failed.keys():
        return told + f"its self-check failed, so everything runs in eager: {off}"
    return told + f"its self-check passed but for what is off now: {off}"


class Record:
    """What a self-check has found, in a file. `running` names the check in progress: if it ends the
    process, the next one finds its name there."""

    def __init__(self, path: Path) -> None:
        self.path, self.running = path, path.with_suffix(".running")

    @contextmanager
    def hold_lock(self) -> Iterator[None]:
        """One process at a time. Without a folder to write to, each process checks for itself."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            lock = FileLock(self.path.with_suffix(".lock"))
            lock.acquire(PATIENCE_S)
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

    def findings_of_a_crash(self) -> dict[str, str]:
        """What a process that ended in the middle of it had found, the check that it ended in among
        it."""
        try:
            found: dict[str, str] = json.loads(self.running.read_text())
        except (OSError, ValueError):
            return {}
        return found

    def begin(self, feature: str, failed: dict[str, str]) -> None:
        """Notes that a check begins."""
        try:
            self.running.write_text(json.dumps(failed | {feature: "it ended the process"}))
        except OSError:
            return


def run_checks(compile_function: Compile, record: Record) -> dict[str, str]:
    """Runs all checks in a thread of its own, where none of the program's modes are on; why
    features failed."""
    settle()  # a check makes a fake tensor mode, in a thread that ends
    failed = record.findings_of_a_crash()
    for feature, why in failed.items():
        switch_off(feature, why)

    def run() -> None:
        for check in CHECKS:
            if check.feature in failed:
                continue
            record.begin(check.feature, failed)
            try:
                check.run(compile_function)
            except Exception as error:  # anything that a torch which nobody has seen may do
                failed[check.feature] = (
                    str(error)
                    if isinstance(error, Wrong)
                    else f"{type(error).__name__}: {error}".partition("\n")[0]
                )
                switch_off(check.feature, failed[check.feature])
                if check.needed:
                    break
        failed.update(
            {feature: why for feature, why in SWITCHED_OFF.items() if feature not in failed}
        )

    thread = threading.Thread(target=run, name="framejit self-check")
    thread.start()
    thread.join()
    record.write(failed)
    return failed


# ---- what is compiled


def values(*shape: int) -> torch.Tensor:
    """Different numbers, between -1 and 1."""
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
    """A branch on a value, in the middle."""
    y = x * 2
    if y.sum() > 0:
        y = y + 1
    return y.cos()


def check_captures(compile_function: Compile) -> None:
    ensure_models()
    kept: tuple[list[torch.Tensor], list[torch.Tensor]] = ([], [])
    handle = compile_function(collect, AS_CAPTURED)
    for _ in range(2):
        same(handle(values(2, 3), kept[0]), collect(values(2, 3), kept[1]))
    same(kept[0], kept[1])
    same(handle.framejit.compiles, 1)
    handle = compile_function(branch, AS_CAPTURED)
    for x in (values(3), values(3) + 1, values(3)):
        same(handle(x), branch(x))
    if handle.framejit.compiles < 2:
        raise Wrong("nothing is captured behind a break")


def check_guards(compile_function: Compile) -> None:
    """Calls that differ in one fact each; compiled code of another call would give another type,
    size or history."""
    handle = compile_function(step, AS_CAPTURED)
    x = values(2, 3)
    for factor in (2.0, -1):
        same(handle(x, factor), step(x, factor))
    others = (x.double(), x.t(), x[:1], x.clone().requires_grad_(), torch.nn.Parameter(x.clone()))
    for argument in others:
        same(handle(argument, 2.0), step(argument, 2.0))
    with torch.no_grad():
        same(handle(x.clone().requires_grad_(), 2.0).requires_grad, False)
    same(handle(x.clone().requires_grad_(), 2.0).requires_grad, True)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        same(handle(x, 2.0), step(x, 2.0))
    same(handle(x, 2.0), step(x, 2.0))


def step(x: torch.Tensor, factor: float) -> torch.Tensor:
    return (x @ x.t()).relu() * factor + x.size(0)


def check_modules(compile_function: Compile) -> None:
    """A module with parameters, buffers that change, and a gradient."""
    module, other = small_module(), small_module()
    handle = compile_function(lambda x: module(x).square().sum(), AS_CAPTURED)
    for _ in range(2):
        loss, expected = handle(values(4, 3)), other(values(4, 3)).square().sum()
        same(loss, expected)
        loss.backward()
        expected.backward()
    compare_states(module, other)
    module[0].weight = torch.nn.Parameter(values(2, 3) * 3)
    same(handle(values(4, 3)), module(values(4, 3)).square().sum())


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
        same((name, ours), (name, theirs), tolerance)
    for ours, theirs in zip(module.parameters(), other.parameters(), strict=True):
        same(ours.grad, theirs.grad, tolerance)


def check_sizes_that_vary(compile_function: Compile) -> None:
    handle = compile_function(step, AS_CAPTURED)
    for rows in (2, 3, 4, 5):
        same(handle(values(rows, 3), 2.0), step(values(rows, 3), 2.0))
    if handle.framejit.compiles > 2:
        raise Wrong(f"four sizes were compiled {handle.framejit.compiles} times")


def check_functions_with_gradients(compile_function: Compile) -> None:
    """torch.autograd.Function."""
    handle, grads = compile_function(lambda x: Doubled.apply(x).sum(), AS_CAPTURED), []
    for function in (handle, lambda x: Doubled.apply(x).sum()):
        x = values(3).requires_grad_()
        function(x).backward()
        grads.append(x.grad)
    same(grads[0], grads[1])


class Doubled(torch.autograd.Function):
    """Its gradient is not what torch would find."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x * 2

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
        return grad * 5


def check_backend(name: str) -> Callable[[Compile], None]:
    """A check of results and gradients of one backend."""

    def check(compile_function: Compile) -> None:
        backend = lookup(name)
        if backend.missing():
            return
        module, other = small_module(), small_module()
        handle = compile_function(
            lambda x: module(x).square().sum(), Options(backend=name, strict=True)
        )
        with torch.no_grad():
            same(handle(values(4, 3)), other(values(4, 3)).square().sum(), TOLERANCE)
        for _ in range(2 if backend.training else 0):
            loss, expected = handle(values(4, 3)), other(values(4, 3)).square().sum()
            same(loss, expected, TOLERANCE)
            loss.backward()
            expected.backward()
        compare_states(module, other, TOLERANCE)

    return check


def check_layout(compile_function: Compile) -> None:
    if layout.layout() is None:
        raise Wrong("where tensors keep their facts was not found; Python compares them")


def check_modes(compile_function: Compile) -> None:
    if not fingerprint.calibrate():
        raise Wrong("where modes are kept was not found; Python compares them")


def same(ours: Any, theirs: Any, tolerance: float = 0.0) -> None:
    """Raises Wrong where two results differ."""
    if isinstance(ours, torch.Tensor) and isinstance(theirs, torch.Tensor):
        facts = [(type(x), x.dtype, x.shape, x.stride(), x.requires_grad) for x in (ours, theirs)]
        if facts[0] != facts[1] or not torch.allclose(ours, theirs, rtol=tolerance, atol=tolerance):
            raise Wrong(f"compiled code gave {ours}, eager {theirs}")
    elif isinstance(ours, list | tuple) and isinstance(theirs, list | tuple):
        for one, other in zip(ours, theirs, strict=True):
            same(one, other, tolerance)
    elif ours != theirs:
        raise Wrong(f"compiled code gave {ours}, eager {theirs}")


# As many entries as a check needs: what runs in eager behind a limit would check nothing.
AS_CAPTURED = Options(backend="eager", strict=True, recompile_limit=64)
TOLERANCE = 1e-5
# The other backends are imported when they are asked for, and are off where that fails: `inductor`
# and `onnxruntime` take long, `autotune` and `cudagraphs` compare what they make with eager.
BACKENDS = ("aot_eager", "native", "torchscript")
CHECKS = (
    Check(TENSOR_LAYOUT, check_layout),
    Check(MODE_FINGERPRINT, check_modes),
    Check("captures", check_captures, needed=True),
    Check("guards", check_guards, needed=True),
    Check("modules", check_modules, needed=True),
    Check(DYNAMIC_SIZES, check_sizes_that_vary),
    Check(AUTOGRAD_FUNCTION, check_functions_with_gradients),
    *(Check(backend_feature(name), check_backend(name)) for name in BACKENDS),
)
