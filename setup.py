"""The repository root is the package `framejit`; its two C extensions need no torch to build."""
import sysconfig

from setuptools import Extension, find_packages, setup

folders = find_packages(".", include=["frontend*", "guards*", "backends*"])
runtime = ["continuation", "entry", "eval_hook", "frame_hook", "handle", "links", "mode", "site"]
internal = [f"{sysconfig.get_path('include')}/internal"]

setup(
    package_dir={"framejit": "."},
    packages=["framejit", *(f"framejit.{name}" for name in folders)],
    ext_modules=[
        Extension(
            "framejit.guards.native._guards",
            [f"guards/native/{name}.c" for name in ("guard_program", "tensor_layout", "torch_state")],
            include_dirs=internal,
            depends=[
                f"guards/native/{name}.h"
                for name in ("constants", "guard_api", "object_compat", "tensor_layout", "torch_state")
            ],
            libraries=["dl"],
            extra_compile_args=["-O3", "-std=c11", "-fvisibility=hidden"],
        ),
        Extension(
            "framejit.frontend.runtime._hook",
            [f"frontend/runtime/{name}.c" for name in runtime],
            include_dirs=["guards/native", *internal],
            depends=["frontend/runtime/hook.h", "frontend/runtime/frame_compat.h", "guards/native/guard_api.h"],
            extra_compile_args=["-O3", "-std=c11"],
        ),
    ],
)
