"""The design's layers, held by reading imports: lower may not import higher, siblings on a line not
each other."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Callable, Iterable
from pathlib import Path

import networkx
import pytest

ROOT = Path(__file__).parent.parent
LAYERS = (  # lowest first; folders of frontend by their own name
    {"records"}, {"errors", "options", "clock", "generated_source", "garbage_collection", "overlap", "factory_call", "tier", "torch_compat", "skipped_imports"},
    {"events"},
    {"pycode", "guards", "backends"}, {"values"}, {"tracing"}, {"codegen"}, {"runtime", "explain"}, {"framejit_attribute", "support", "control"},
    {"self_check", "observation"}, {"api", "eager_only"}, {"exported_graph"}, {"artifact", "export", "replace_torch_compile"}, {"public"}, {"__init__"}, {"benchmarks"}, {"cli"}, {"__main__"},
)  # fmt: skip
PLACES = ("*.py", "frontend/**/*.py", "guards/**/*.py", "backends/**/*.py", "cli/*.py")
FILES = [path for place in PLACES for path in ROOT.glob(place) if path.name != "setup.py"]
VERSION_TESTS = {"version_info", "hexversion", "python_version", "python_version_tuple"}
ADAPTERS = {
    "aot_eager",
    "cudagraphs",
    "inductor",
    "torchscript",
}  # files of backends that may know torch's compilers


@functools.cache
def parsed() -> dict[tuple[str, ...], ast.Module]:
    return {
        path.relative_to(ROOT).with_suffix("").parts: ast.parse(path.read_text()) for path in FILES
    }


@functools.cache
def modules() -> set[tuple[str, ...]]:
    return {parts[:-1] if parts[-1] == "__init__" else parts for parts in parsed()}


def imports(parts: tuple[str, ...], nodes: Iterable[ast.AST]) -> set[tuple[str, ...]]:
    """Modules of framejit that a file with these nodes imports."""
    found = set()
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and node.level:
            base = parts[: len(parts) - node.level] + tuple(
                node.module.split(".") if node.module else ()
            )
            found |= {
                base + (name.name,) if base + (name.name,) in modules() else base
                for name in node.names
            }
    return found


def runtime_nodes(tree: ast.AST) -> list[ast.AST]:
    """All nodes but those under `if TYPE_CHECKING:`."""
    hidden = {id(inner) for node in ast.walk(tree) if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
              for statement in node.body for inner in ast.walk(statement)}  # fmt: skip
    return [node for node in ast.walk(tree) if id(node) not in hidden]


def import_graph(nodes_of: Callable[[ast.AST], Iterable[ast.AST]]) -> networkx.DiGraph:
    return networkx.DiGraph(
        (parts[:-1] if parts[-1] == "__init__" else parts, target)
        for parts, tree in parsed().items()
        for target in imports(parts, nodes_of(tree))
    )


@functools.cache
def graph() -> networkx.DiGraph:
    return import_graph(runtime_nodes)


@functools.cache
def graph_with_types() -> networkx.DiGraph:
    """Also what is imported for type checkers."""
    return import_graph(ast.walk)


def group(module: tuple[str, ...]) -> str:
    inner = module[1:] if module[:1] == ("frontend",) else module
    return inner[0] if inner else "__init__"


def level(module: tuple[str, ...]) -> int:
    return next(height for height, names in enumerate(LAYERS) if group(module) in names)


def test_lower_layers_do_not_import_higher_ones():
    """For their types neither."""
    assert [
        f"{'.'.join(a)} imports {'.'.join(b)}"
        for a, b in sorted(graph_with_types().edges)
        if group(a) != group(b) and level(a) <= level(b)
    ] == []


# Of backends, lowest first; what is not listed is above all of these.
BACKENDS = (
    "backend_info",
    "registry",
    "graph",
    "autograd",
    "subgraphs",
    "native",
)


def test_lower_folders_of_backends_do_not_import_higher_ones():
    assert [
        f"{'.'.join(a)} imports {'.'.join(b)}"
        for a, b in sorted(graph_with_types().edges)
        if a[:1] == b[:1] == ("backends",) and a[1:2] != b[1:2] and a[1] in BACKENDS
        if b[1] not in BACKENDS[: BACKENDS.index(a[1])]
    ] == []


def test_imports_have_no_cycles():
    assert [
        sorted(map(".".join, cycle))
        for cycle in networkx.strongly_connected_components(graph())
        if len(cycle) > 1
    ] == []


# Files that name each other's types: a value and what it is given.
TYPE_CYCLES = (
    "frontend.values.base frontend.values.context frontend.values.emitter frontend.values.mutable",
)


def test_imports_for_types_have_few_cycles():
    assert sorted(
        " ".join(sorted(map(".".join, cycle)))
        for cycle in networkx.strongly_connected_components(graph_with_types())
        if len(cycle) > 1
    ) == list(TYPE_CYCLES)


# Of the rules below each is one test for all files: a test a file would be thousands.


def test_files_keep_the_rules():
    """No import inside a function, no torch._dynamo outside backend adapters, no version test
    outside pycode/."""
    assert [
        f"{'/'.join(parts)}: {rule}" for parts in parsed() for rule in broken_rules(parts)
    ] == []


def broken_rules(parts: tuple[str, ...]) -> list[str]:
    broken = []
    for node in ast.walk(parsed()[parts]):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            inside = [
                inner for inner in ast.walk(node) if isinstance(inner, ast.Import | ast.ImportFrom)
            ]
            broken += [f"import in a function, line {inner.lineno}" for inner in inside]
        if isinstance(node, ast.Import | ast.ImportFrom) and not (
            parts[0] == "backends" and parts[-1] in ADAPTERS
        ):
            names = [getattr(node, "module", None) or "", *(alias.name for alias in node.names)]
            if "torch._dynamo" in ast.unparse(node) or ("torch" in names and "_dynamo" in names):
                broken.append(f"torch._dynamo, line {node.lineno}")
        if isinstance(node, ast.Attribute) and node.attr in VERSION_TESTS and "pycode" not in parts:
            broken.append(f"version test, line {node.lineno}")
    return broken


SWITCHES = {
    ("backends", "autograd", "aot_eager")
}  # switches torch by a variable of the environment, as torch reads it


def test_the_environment_is_read_in_one_place():
    """options.py alone asks for variables; others ask options.py."""
    asked = [
        f"{'/'.join(parts)}, line {node.lineno}"
        for parts in sorted(parsed().keys() - SWITCHES - {("options",)})
        for node in ast.walk(parsed()[parts])
        if isinstance(node, ast.Attribute) and node.attr in ("environ", "getenv")
    ]
    assert asked == []


@pytest.mark.parametrize(
    "path",
    sorted((*ROOT.glob("frontend/**/*.[ch]"), *ROOT.glob("guards/**/*.[ch]"))),
    ids=lambda path: path.name,
)
def test_c_files_ask_for_versions_only_in_the_compat_headers(path):
    lines = [
        n
        for n, text in enumerate(path.read_text().splitlines(), 1)
        if re.search(r"PY_(VERSION_HEX|MINOR_VERSION)", text)
    ]
    assert lines == [] or path.name in ("frame_compat.h", "object_compat.h")


# What changes after import outside frontend/runtime. Registries are filled when modules are
# imported, or by the user; caches hold results
# of pure functions; counters number things.
STATE = {
    "backends/autograd/aot_eager.py": {
        "numbers_kept": "threads that need torch's switch off, and what it was before"
    },
    "backends/autotune/background.py": {"_worker": "the thread that tunes in the background"},
    "backends/cudagraphs/pool.py": {
        "_pools": "memory of each device",
        "_streams": "side stream of each device",
    },
    "backends/graph/extracted_calls.py": {"_numbers": "counter"},
    "backends/graph/higher_order_call.py": {"_numbers": "counter"},
    "backends/graph/random_generators.py": {"_numbers": "counter"},
    "backends/graph/opaque_call.py": {"_numbers": "counter"},
    "backends/graph/tensor_hooks.py": {"_numbers": "counter"},
    "backends/native/lower/pointwise.py": {"POINTWISE": "registry"},
    "backends/native/lower/registry.py": {"LOWERINGS": "registry", "SELDOM": "registry"},
    "backends/native/toolchain/load_triton.py": {"_loaded": "cache"},
    "backends/registry.py": {"_backends": "registry", "_plugins": "registry"},
    "errors.py": {"_warned": "warnings that were given once"},
    "events.py": {"_numbers": "counter"},
    "frontend/eager_only.py": {"_registered": "registry"},
    "frontend/replace_torch_compile.py": {
        "_installed": "the calls of install() that are in effect",
        "_originals": "what install() has replaced",
    },
    "frontend/pycode/decode.py": {"_memo": "cache"},
    "frontend/pycode/readable.py": {"WRITES": "registry"},
    "frontend/self_check.py": {"_failed": "cache: the self-check's result"},
    "frontend/tracing/fake_tensors/fake_results.py": {"_results": "cache"},
    "frontend/tracing/fake_tensors/fake_rules.py": {"RULES": "registry"},
    "frontend/tracing/interpreter/handlers.py": {"HANDLERS": "registry"},
    "frontend/values/functions/function.py": {"_renamed_codes": "cache"},
    "frontend/values/functions/trace_rules.py": {"_found": "cache"},
    "frontend/values/models/torch_policy.py": {
        "ALLOWED": "registry",
        "ALLOWED_OBJECTS": "registry",
    },
    "generated_source.py": {"_numbers": "counter"},
    "guards/kinds/registry.py": {"KINDS": "registry"},
    "guards/native/fingerprint.py": {"_forced_off": "switch for tests"},
    "guards/native/layout.py": {"_forced": "switch for tests"},
    "torch_compat.py": {"SWITCHED_OFF": "features that the self-check switched off"},
}
MUTATORS = frozenset(
    "add append appendleft clear discard extend insert pop popitem remove setdefault submit update".split()
)


def module_state(tree: ast.Module) -> set[str]:
    """Names of a module that its functions change: rebound by `global`, changed in place, or
    instances of a class of the module whose methods set attributes."""
    changing = {
        node.name
        for node in tree.body
        if isinstance(node, ast.ClassDef) and any(map(sets_attributes, node.body))
    }
    made = {
        target.id
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call)
        for target in node.targets
        if isinstance(target, ast.Name) and getattr(node.value.func, "id", None) in changing
    }
    statements = [node for node in tree.body if isinstance(node, ast.Assign | ast.AnnAssign)]
    targets = [
        target
        for node in statements
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
    ]
    names = {target.id for target in targets if isinstance(target, ast.Name)}
    return made | {name for function in ast.walk(tree) if isinstance(function, ast.FunctionDef | ast.Lambda)
            for node in ast.walk(function) for name in changed_names(node) if name in names}  # fmt: skip


def sets_attributes(node: ast.AST) -> bool:
    """Whether a method other than __init__ sets attributes of `self`."""
    return (
        isinstance(node, ast.FunctionDef)
        and node.name != "__init__"
        and any(
            isinstance(inner, ast.Attribute)
            and isinstance(inner.ctx, ast.Store)
            and isinstance(inner.value, ast.Name)
            and inner.value.id == "self"
            for inner in ast.walk(node)
        )
    )


def changed_names(node: ast.AST) -> list[str]:
    match node:
        case ast.Global(names=names):
            return names
        case ast.Subscript(value=ast.Name(id=name), ctx=ast.Store() | ast.Del()):
            return [name]
        case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=method)) if (
            method in MUTATORS
        ):
            return [name]
        case ast.Call(func=ast.Name(id="next"), args=[ast.Name(id=name), *_]):
            return [name]
    return []


def test_process_state_is_in_the_runtime():
    found = {
        "/".join(parts) + ".py": module_state(tree)
        for parts, tree in parsed().items()
        if parts[:2] != ("frontend", "runtime")
    }
    assert {path: names for path, names in found.items() if names} == {
        path: set(names) for path, names in STATE.items()
    }


def test_module_state_is_found():
    code = "a = []\nb = 0\nc = {}\nd = set()\ne = count()\ndef f(c):\n    global b\n    a.append(1)\n    d.add(next(e))\n    c = d[0]\n"
    assert module_state(ast.parse(code)) == {"a", "b", "d", "e"}
    code = "class C:\n    def __init__(self):\n        self.n = 0\n    def f(self):\n        self.n += 1\n"
    code += "class D:\n    def __init__(self):\n        self.n = 0\na = C()\nb = D()\n"
    assert module_state(ast.parse(code)) == {"a"}


def test_broad_handlers_say_why():
    """`except Exception` raises, hands the exception on, or has a comment that says whose exception
    is dropped."""
    product = [parts for parts in parsed() if parts[0] in ("frontend", "guards", "backends")]
    assert [line for parts in product for line in handlers_without_a_reason(parts)] == []


def handlers_without_a_reason(parts: tuple[str, ...]) -> list[str]:
    found = []
    lines = (ROOT / "/".join(parts)).with_suffix(".py").read_text().splitlines()
    for node in ast.walk(parsed()[parts]):
        if isinstance(node, ast.ExceptHandler) and (
            node.type is None or ast.unparse(node.type) in ("Exception", "BaseException")
        ):
            inner = [part for statement in node.body for part in ast.walk(statement)]
            keeps = any(
                isinstance(part, ast.Raise) or isinstance(part, ast.Name) and part.id == node.name
                for part in inner
            )
            text = lines[node.lineno - 2 : node.body[0].lineno + 1]
            if not keeps and not any("#" in line for line in text):
                found.append(f"{'/'.join(parts)}, line {node.lineno}")
    return found


MIRRORED = (
    "frontend/pycode",
    "frontend/values",
    "frontend/tracing",
    "frontend/runtime",
    "frontend/explain",
    "guards",
    "backends",
    "cli",
)
MIRRORING = [path for place in MIRRORED for path in (ROOT / "tests" / place).rglob("test_*.py")]


def test_a_test_has_the_name_of_what_it_tests():
    """A file or folder at the same place in the product, and maybe a topic: test_copy_of_modules
    tests copy.py."""
    assert [
        str(path.relative_to(ROOT)) for path in MIRRORING if not names_what_it_tests(path)
    ] == []


def names_what_it_tests(path: Path) -> bool:
    tested = ROOT / path.parent.relative_to(ROOT / "tests")
    names = {other.name.split(".")[0] for other in tested.iterdir()}
    topic = path.stem.removeprefix("test_")
    return any(topic == name or topic.startswith(name + "_") for name in names)


def files_listed(docstring: str) -> list[str]:
    """The names in a docstring's table: `    heading  name, name,`, also over several lines. (Lines
    that begin with a number are of another table.)"""
    rows = re.findall(r"^    (?:[^\d\s].*?)?  +((?:\w+, )*\w+),?$", docstring, re.MULTILINE)
    return [name for row in rows for name in row.split(", ")]


def packages_with_a_table() -> list[Path]:
    return [
        path.parent
        for place in ("frontend", "guards", "backends")
        for path in (ROOT / place).rglob("__init__.py")
        if files_listed(ast.get_docstring(ast.parse(path.read_text())) or "")
    ]


@pytest.mark.parametrize("package", packages_with_a_table(), ids=lambda path: path.name)
def test_a_package_lists_its_files(package):
    """Where a package's docstring sorts its files and folders into a table, it has each once."""
    listed = files_listed(ast.get_docstring(ast.parse((package / "__init__.py").read_text())) or "")
    there = [path.stem for path in package.glob("*.py") if path.stem != "__init__"]
    there += [path.parent.name for path in package.glob("*/__init__.py")]
    assert sorted(listed) == sorted(there)


def test_a_table_of_files_is_found():
    assert files_listed("About.\n\n    one  a, b,\n         c\n\n    two words  d\n") == [*"abcd"]
