"""Processes of their own for tests, which begin where another process has imported torch: that
takes seconds."""

from __future__ import annotations

import importlib
import json
import os
import runpy
import subprocess
import sys
from pathlib import Path
from types import ModuleType

# framejit is not imported here: a program may want to change something before.


class ForkServer:
    """A process that has imported some modules, and forks one for each program. It ends with the
    `with` statement."""

    def __init__(self, *imports: str, path: Path | str = "") -> None:
        """path: a folder that imports look into first."""
        searched = os.pathsep.join(filter(None, [str(path), os.environ.get("PYTHONPATH")]))
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-X", "faulthandler", str(Path(__file__).resolve()), *imports],
            cwd="/", env={**os.environ, "PYTHONPATH": searched}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def __enter__(self) -> ForkServer:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.process.communicate()

    def run(
        self, program: str | Path, folder: Path, *arguments: str, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        """Runs Python code or a file of it as `__main__` in the folder, where its outputs become
        files."""
        kind = "file" if isinstance(program, Path) else "code"
        asked = [kind, str(program), str(folder), arguments, environment]
        print(json.dumps(asked), file=self.process.stdin, flush=True)
        returned = self.process.stdout.readline()
        assert returned, "the server has ended"
        told = [(folder / name).read_text() for name in ("stdout", "stderr")]
        return subprocess.CompletedProcess([program], int(returned), *told)


def serve(imports: list[str]) -> None:
    """Returns in the forked process when its program has ended, so that the interpreter ends as
    ever."""
    for name in imports:
        importlib.import_module(name)
    while asked := sys.stdin.readline():
        kind, program, folder, arguments, environment = json.loads(asked)
        child = os.fork()
        if child == 0:
            for number, name in ((1, "stdout"), (2, "stderr")):
                os.dup2(os.open(Path(folder, name), os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
            os.environ.update(environment)
            os.chdir(folder)
            run_as_main(kind, program, arguments)
            return
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


def run_as_main(kind: str, program: str, arguments: list[str]) -> None:
    """As Python runs code behind -c, or a file."""
    sys.argv = [program if kind == "file" else "-c", *arguments]
    if kind == "file":
        sys.path.insert(0, str(Path(program).parent))
        runpy.run_path(program, run_name="__main__")
    else:
        main = sys.modules["__main__"] = ModuleType("__main__")
        exec(compile(program, "<string>", "exec"), vars(main))


if __name__ == "__main__":
    serve(sys.argv[1:])
