"""The repository root is the package `framejit`; its four C extensions need no torch to build."""

import ast
import os
import sysconfig
from pathlib import Path

from setuptools import Extension, find_packages, setup

folders = find_packages(".", include=["frontend*", "guards*", "backends*", "cli*", "benchmarks*"])
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


def files(pattern):
    return sorted(map(str, Path().glob(pattern)))


def extension(name, sources, extra_compile_args=(), **more):
    return Extension(
        f"framejit.{name}",
        sources,
        extra_compile_args=["-O3", "-std=c11", *extra_compile_args, *checks],
        extra_link_args=checks,
        optional=optional,
        **more,
    )


setup(
    # setuptools leaves the setup script out of the package by this name, which front ends do not
    # set
    script_name="setup.py",
    package_dir={"framejit": "."},
    packages=["framejit", *(f"framejit.{name}" for name in folders)],
    package_data={
        "": ["*.pyi", "py.typed"],
        "framejit.frontend.explain": ["templates/*.j2", "*.json"],
        "framejit.backends.native.attention": ["templates/*.j2"],
    },
    options={"build": {"build_base": "build/sanitized"}} if sanitize else {},
    ext_modules=[
        extension("_generations", ["generations.c"], include_dirs=internal),
        extension(
            "guards.native._guards",
            files("guards/native/*.c"),
            include_dirs=internal,
            depends=files("guards/native/*.h"),
            libraries=["dl"],
            extra_compile_args=["-fvisibility=hidden"],
        ),
        extension(
            "backends.native.toolchain._launch",
            ["backends/native/toolchain/launch.c"],
            libraries=["dl"],
        ),
        extension(
            "frontend.runtime._hook",
            files("frontend/runtime/*.c"),
            include_dirs=["guards/native", *internal],
            depends=[*files("frontend/runtime/*.h"), *files("guards/native/*.h")],
        ),
    ],
)
