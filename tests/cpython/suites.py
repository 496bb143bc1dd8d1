"""CPython's own regression tests under the frame hook: each test method and each example of a
doctest is compiled, every frame that it reaches is eligible, and captures without tensor work are
rebuilt and run too (normally their frames are left alone).

`python tests/cpython/suites.py [--jobs N] [suite ...]` runs each suite in processes of its own,
plain and compiled, and fails if a test that passes in plain Python does not pass compiled. It needs
a Python that comes with Lib/test.
"""

from __future__ import annotations

import argparse
import contextlib
import doctest
import importlib
import io
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import unittest
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import FunctionType
from typing import Any

SUITES = """
    test_generators test_with test_contextlib test_exceptions test_scope test_functools test_itertools test_collections test_dict
    test_list test_set test_class test_descr test_super test_dataclasses test_enum test_unpack test_unpack_ex test_extcall test_patma
    test_exception_variations test_exception_group test_raise test_listcomps test_dictcomps test_setcomps test_genexps test_keywordonlyarg
    test_positional_only_arg test_named_expressions test_augassign test_compare test_binop test_bool test_int test_float test_tuple
    test_slice test_range test_deque test_ordered_dict test_defaultdict test_userdict test_userlist test_property test_decorators
    test_enumerate test_iter test_opcodes test_grammar test_fstring test_string test_operator test_copy test_heapq test_math
    test_isinstance test_abc test_dynamicclassattribute test_typechecks test_contains test_global test_pow test_richcmp test_index
""".split()
HERE = Path(__file__)
# Tests that ask for what framejit says it does not keep (README, Limits), by the reason.
LEFT_OUT: dict[str, tuple[str, ...]] = {
    "framejit itself calls the builtin that the test replaces": (
        "test_functools.TestLRUC.test_lru_reentrancy_with_len", "test_functools.TestLRUPy.test_lru_reentrancy_with_len",
        "test_iter.TestCase.test_reduce_mutating_builtins_iter",
    ),
    "it counts references or bytes, or asks when an object dies": (
        "test_generators.FinalizationTest.test_refcycle", "test_functools.TestLRUC.test_lru_cache_weakrefable",
        "test_functools.TestLRUPy.test_lru_cache_weakrefable", "test_exceptions.ExceptionTests.testExceptionCleanupState",
        "test_raise.TestContext.test_3611", "test_descr.ClassPropertiesAndMethods.test_remove_subclass",
        "test_descr.ClassPropertiesAndMethods.test_slots", "test_descr.SharedKeyTests.test_subclasses",
        "test_dict.DictTest.test_splittable_popitem",
        "test_ordered_dict.CPythonBuiltinDictTests.test_highly_nested_subclass",
        *(f"test_ordered_dict.{made}OrderedDict{of}Tests.{test}" for made in ("CPython", "PurePython") for of in ("", "Subclass")
          for test in ("test_highly_nested_subclass", "test_reference_loop")),
        "test_copy.TestCopy.test_copy_weakkeydict", "test_copy.TestCopy.test_copy_weakvaluedict",
        "test_copy.TestCopy.test_deepcopy_weakkeydict", "test_copy.TestCopy.test_deepcopy_weakvaluedict",
        "test_iter.TestCase.test_ref_counting_behavior",
        "test_enumerate.TestReversed.test_bug1229429",
        "test_list.ListTest.test_free_after_iterating",  # on 3.13 reversed() keeps an empty list, and a guard the list's class
    ),
    "it asks whether two equal strings are one object": ("test_class.ClassTests.testSetattrWrapperNameIntern",),
    "it reads its own frame, or the frames of a traceback": (
        "test_exceptions.PEP626Tests.test_lineno_after_other_except", "test_exceptions.PEP626Tests.test_lineno_in_try",
        "test_raise.TestTracebackType.test_attrs",
    ),
}  # fmt: skip
TESTING = {"unittest", "doctest.py"}  # frames that run the tests
SECONDS = 300  # for one test


class Record(unittest.TestResult):
    """Outcome by test id; a test with failing sub-tests has failed."""

    def __init__(self, channel: int) -> None:
        super().__init__()
        self.channel = channel
        self.outcomes: dict[str, str] = {}
        self.told: dict[str, str] = {}

    def startTest(self, test: Any) -> None:
        super().startTest(test)
        self.outcomes[test.id()] = "passed"

    def stopTest(self, test: Any) -> None:
        """Tells the parent at once: the next test may crash."""
        super().stopTest(test)
        line = json.dumps([test.id(), self.outcomes[test.id()], self.told.get(test.id(), "")])
        os.write(self.channel, f"{line}\n".encode())

    def _bad(self, test: Any, kind: str, error: Any) -> None:
        self.outcomes[test.id()] = kind
        try:
            self.told[test.id()] = "".join(traceback.format_exception(error[1]))
        except Exception:
            self.told[test.id()] = f"a {error[0].__name__} that cannot be shown"

    def addFailure(self, test: Any, err: Any) -> None:
        self._bad(test, "failed", err)

    def addError(self, test: Any, err: Any) -> None:
        self._bad(test, "failed", err)

    def addSubTest(self, test: Any, subtest: Any, err: Any) -> None:
        if err is not None:
            self._bad(test, "failed", err)

    def addSkip(self, test: Any, reason: str) -> None:
        self.outcomes[test.id()] = "skipped"

    def addExpectedFailure(self, test: Any, err: Any) -> None:
        self.outcomes[test.id()] = "failed as expected"

    def addUnexpectedSuccess(self, test: Any) -> None:
        self.outcomes[test.id()] = "passed against expectation"


def hook_everything() -> None:
    """From now on each test method is compiled, and every frame it reaches."""
    import framejit  # noqa: PLC0415 - the plain run must not know it
    from framejit.frontend.runtime import cache, frames  # noqa: PLC0415
    from framejit.frontend.runtime.pipeline import Compilation  # noqa: PLC0415

    def eligible(code: Any, function: Any, caller: Any) -> bool:
        inside, ours = code.co_filename, getattr(function, "_framejit_skip", False)
        plain = not code.co_flags & frames.GENERATORS
        return (
            plain
            and not ours
            and not TESTING.intersection(Path(inside).parts)
            and not inside.startswith(framejit_files)
        )

    framejit_files = os.path.dirname(framejit.__file__) + os.sep
    made = Compilation._entry_parts

    def always_rebuilt(self: Any, capture: Any, *rest: Any) -> Any:
        had, capture.trace.graph.nodes = (
            capture.trace.graph.nodes,
            [None],
        )  # as if there were tensor work
        try:
            return made(self, capture, *rest)
        finally:
            capture.trace.graph.nodes = had

    cache.worth_compiling = eligible
    Compilation._entry_parts = always_rebuilt
    framejit.config.strict = True
    framejit.config.trace_budget = 20_000

    def call_test_method(self: unittest.TestCase, method: Any) -> None:
        function = getattr(method, "__func__", None)
        if isinstance(function, FunctionType) and not isinstance(self, doctest.DocTestCase):
            method = framejit.compile(function).__get__(self)
        if method() is not None:
            raise TypeError("a test returned something")

    def run_example(code: Any, names: dict[str, Any]) -> None:
        framejit.compile(lambda: exec(code, names))()

    doctest.exec = run_example  # type: ignore[attr-defined]
    unittest.TestCase._callTestMethod = call_test_method  # type: ignore[method-assign]


def child(suite: str, compiled: bool, names: list[str], first: int) -> None:
    """Runs one suite in this process, from its `first` test on; outcomes go to standard output, one
    JSON line a test."""
    warnings.simplefilter("ignore")
    if compiled:
        hook_everything()
    module = importlib.import_module(f"test.{suite}")
    loader = unittest.TestLoader()
    loaded = (
        loader.loadTestsFromNames(names, module) if names else loader.loadTestsFromModule(module)
    )
    left_out = {f"test.{name}" for reason in LEFT_OUT.values() for name in reason}
    tests = [
        test
        for test in flat(loaded)
        if type(test).__name__ != "_FailedTest" and test.id() not in left_out
    ]
    channel = os.dup(1)
    os.write(channel, (json.dumps([test.id() for test in tests]) + "\n").encode())
    with contextlib.redirect_stdout(io.StringIO()):
        unittest.TestSuite(tests[first:]).run(Record(channel))


def flat(suite: Any) -> list[Any]:
    return (
        [test for inner in suite for test in flat(inner)]
        if isinstance(suite, unittest.TestSuite)
        else [suite]
    )


def run_apart(suite: str, compiled: bool, names: tuple[str, ...] = ()) -> dict[str, Any]:
    """child() in processes of its own: where a test ends the process, or hangs, that is its
    outcome, and another goes on."""
    outcomes: dict[str, str] = {}
    told: dict[str, str] = {}
    first = 0
    while True:
        how_to_run = ["--compiled"] if compiled else []
        command = [
            sys.executable,
            str(HERE),
            "--child",
            suite,
            "--from",
            str(first),
            *how_to_run,
            "--names",
            *names,
        ]
        lines, how = watched(command)
        if not lines:
            return {"outcomes": outcomes, "told": told, "unavailable": how}
        for test, outcome, why in lines[1:]:
            outcomes[test], told[test] = outcome, why
        left = [
            position
            for position, test in enumerate(lines[0])
            if test not in outcomes and position >= first
        ]
        if not left:
            return {"outcomes": outcomes, "told": told}
        outcomes[lines[0][left[0]]], told[lines[0][left[0]]] = "crashed", how
        first = left[0] + 1


def watched(command: list[str]) -> tuple[list[Any], str]:
    """The lines of a child, and how it ended: one that says nothing for too long is ended."""
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    with tempfile.TemporaryFile() as errors:
        child = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=errors, env=environment, text=True
        )
        late = threading.Event()
        lines: list[Any] = []
        assert child.stdout is not None
        while True:
            timer = threading.Timer(SECONDS, lambda: (late.set(), child.kill()))
            timer.start()
            line = child.stdout.readline()
            timer.cancel()
            if not line:
                break
            if line.endswith("]\n"):
                lines.append(json.loads(line))
        status = child.wait()
        errors.seek(max(0, errors.seek(0, os.SEEK_END) - 3000))
        said = errors.read().decode(errors="replace")
    return (
        lines,
        f"no end within {SECONDS} s"
        if late.is_set()
        else f"the process ended with status {status}\n{said}",
    )


def compare(suite: str, names: tuple[str, ...] = ()) -> dict[str, Any]:
    """{"tests": how many pass in plain Python, "worse": {test: what compiled says}}"""
    plain, compiled = run_apart(suite, False, names), run_apart(suite, True, names)
    passing = [
        test
        for test, outcome in plain["outcomes"].items()
        if outcome in ("passed", "failed as expected")
    ]
    worse = [test for test in passing if compiled["outcomes"].get(test) != plain["outcomes"][test]]
    told = {test: compiled["told"].get(test, "did not run") for test in worse}
    return {
        "suite": suite,
        "tests": len(passing),
        "worse": told,
        "unavailable": plain.get("unavailable"),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("suites", nargs="*", help="none: all")
    parser.add_argument("--jobs", type=int, default=1, help="suites at a time")
    parser.add_argument("--names", nargs="*", default=[], help="only these tests: Class.method")
    parser.add_argument("--verbose", action="store_true", help="show what failing tests say")
    parser.add_argument("--from", dest="first", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--compiled", action="store_true", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.child:
        child(chosen.child, chosen.compiled, chosen.names, chosen.first)
        return 0
    started, tests, worse = time.perf_counter(), 0, 0
    with ThreadPoolExecutor(chosen.jobs) as pool:
        for result in pool.map(
            lambda suite: compare(suite, tuple(chosen.names)), chosen.suites or SUITES
        ):
            state = (
                "not in this Python"
                if result["unavailable"]
                else f"{result['tests']} tests, {len(result['worse'])} worse"
            )
            print(f"{result['suite']}: {state}", flush=True)
            for test, told in result["worse"].items():
                print(
                    f"  {test}: {told.strip().splitlines()[-1][:160] if told.strip() else '?'}",
                    flush=True,
                )
                if chosen.verbose:
                    print("    " + told.replace("\n", "\n    "), flush=True)
            tests, worse = tests + result["tests"], worse + len(result["worse"])
    print(
        f"{tests} tests pass in plain Python, {worse} of them not when compiled ({time.perf_counter() - started:.0f} s)"
    )
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main())
