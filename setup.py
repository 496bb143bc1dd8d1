"""The repository root is the package `framejit`; its four C extensions need no torch to build."""

import ast
import os
import sysconfig
from pathlib import Path

from setuptools import Extension, find_packages, setup

folders = find_packages(".", include=["frontend*", "guards*", "backends*", "cli*", "benchmarks*"])
runtime = [
    "continuation",
    "entry",
    "eval_hook",
    "frame_hook",
    "handle",
    "links",
    "mode",
    "module_call",
    "site",
]
internal = [f"{sysconfig.get_path('include')}/internal"]
# FRAMEJIT_SANITIZE=1 builds for tests under the address and undefined-behaviour sanitizers (tox env
# `native`)
sanitize = bool(os.environ.get("FRAMEJIT_SANITIZE"))
checks = ["-fsanitize=address,undefined", "-fno-omit-frame-pointer", "-g"] if sanitize else []

# Under a Python that framejit does not know the extensions may fail to build: it then warns and
# runs everything in eager.
dialect = ast.parse(Path("frontend/pycode/dialect.py").read_text())
versions = next(
    ast.literal_eval(node.value)
    for node in dialect.body
    if ast.unparse(node).startswith("VERSIONS =")
)
optional = sysconfig.get_python_version() not in {f"{major}.{minor}" for major, minor in versions}

setup(
    # setuptools leaves the setup script out of the package by this name, which front ends do not
    # set
    script_name="setup.py",
    package_dir={"framejit": "."},
    packages=["framejit", *(f"framejit.{name}" for name in folders)],
    package_data={
        "": ["*.pyi", "py.typed"],
        "framejit.frontend.explain": ["templates/*.j2", "*.json"],
    },
    options={"build": {"build_base": "build/sanitized"}} if sanitize else {},
    ext_modules=[
        Extension(
            "framejit._generations",
            ["generations.c"],
            include_dirs=internal,
            extra_compile_args=["-O3", "-std=c11", *checks],
            extra_link_args=checks,
            optional=optional,
        ),
        Extension(
            "framejit.guards.native._guards",
            [
                f"guards/native/{name}.c"
                for name in (
                    "change_detection",
                    "dict_watch",
                    "guard_program",
                    "guards_module",
                    "iterators",
                    "memory",
                    "program_builder",
                    "program_type",
                    "relation",
                    "snapshot",
                    "snapshot_builder",
                    "tensor_layout",
                    "torch_state",
                )
            ],
            include_dirs=internal,
            depends=[
                f"guards/native/{name}.h"
                for name in (
                    "change_detection",
                    "checks",
                    "constants",
                    "dict_watch",
                    "guard_api",
                    "iterators",
                    "loads",
                    "memory",
                    "object_compat",
                    "program",
                    "program_builder",
                    "relation",
                    "snapshot",
                    "snapshot_data",
                    "tensor_layout",
                    "torch_state",
                )
            ],
            libraries=["dl"],
            extra_compile_args=["-O3", "-std=c11", "-fvisibility=hidden", *checks],
            extra_link_args=checks,
            optional=optional,
        ),
        Extension(
            "framejit.backends.native.toolchain._launch",
            ["backends/native/toolchain/launch.c"],
            libraries=["dl"],
            extra_compile_args=["-O3", "-std=c11", *checks],
            extra_link_args=checks,
            optional=optional,
        ),
        Extension(
            "framejit.frontend.runtime._hook",
            [f"frontend/runtime/{name}.c" for name in runtime],
            include_dirs=["guards/native", *internal],
            depends=[
                "frontend/runtime/hook.h",
                "frontend/runtime/frame_compat.h",
                "guards/native/guard_api.h",
                "guards/native/object_compat.h",
                "guards/native/constants.h",
            ],
            extra_compile_args=["-O3", "-std=c11", *checks],
            extra_link_args=checks,
            optional=optional,
        ),
    ],
)
