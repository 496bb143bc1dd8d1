"""A process that compiles Triton kernels for another: it reads and writes JSON lines, and leaves
results in Triton's cache.

Run as a script; it imports only Triton, not torch or framejit, so that it starts fast.
"""

from __future__ import annotations

import importlib.util
import json
import sys
import traceback
from typing import Any

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource


def compile_kernel(job: dict[str, Any]) -> Any:
    """Compiles one job: path of the module, signature, constants, aligned arguments, target,
    options."""
    spec = importlib.util.spec_from_file_location(job["module"], job["path"])
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    attributes = {(position,): [["tt.divisibility", 16]] for position in job["aligned"]}
    constants = {(job["arguments"].index(name),): value for name, value in job["constants"].items()}
    source = ASTSource(
        module.kernel, signature=job["signature"], constexprs=constants, attrs=attributes
    )
    return triton.compile(source, target=GPUTarget(*job["target"]), options=job["options"])


def main() -> None:
    replies = sys.stdout
    sys.stdout = sys.stderr  # output of a compiler must not mix with the replies
    for line in sys.stdin:
        job = json.loads(line)
        error = None
        try:
            compile_kernel(job)
        except BaseException:  # Triton's, or an interrupt: the parent decides
            error = traceback.format_exc(limit=3)
        print(json.dumps({"error": error}), file=replies, flush=True)


if __name__ == "__main__":
    main()
