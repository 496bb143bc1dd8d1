"""Processes of their own for tests, which begin where another process has imported torch: that
takes seconds."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path

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
        self, program: str, folder: Path, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        """Runs Python code as `__main__`; its outputs are files in the folder."""
        print(json.dumps([program, str(folder), environment]), file=self.process.stdin, flush=True)
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
        program, folder, environment = json.loads(asked)
        child = os.fork()
        if child == 0:
            for number, name in ((1, "stdout"), (2, "stderr")):
                os.dup2(os.open(Path(folder, name), os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
            os.environ.update(environment)
            exec(compile(program, "<program>", "exec"), {"__name__": "__main__"})
            return
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


if __name__ == "__main__":
    serve(sys.argv[1:])
