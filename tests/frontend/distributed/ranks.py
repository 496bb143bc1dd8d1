"""Two processes of one gloo group, which run jobs of programs.py when the tests ask for them.

As a script, this is one of the processes: a line of input names a job (of programs.py, or with the
module), a line of output is its result as JSON."""

from __future__ import annotations

import contextlib
import datetime
import importlib
import json
import os
import subprocess
import sys
import tempfile
import threading
import traceback
from pathlib import Path

RANKS = 2
LIMIT_S = 60  # for a job; a hang fails the test
MARK = "RESULT "


class Ranks:
    """The processes. `run` gives each the same job; after a failure new ones are started."""

    def __init__(self, environment):
        self.environment = environment
        self.processes = []

    def start(self):
        folder = tempfile.mkdtemp()
        self.processes = [
            subprocess.Popen(
                [sys.executable, "-W", "ignore", __file__, str(rank), f"{folder}/store"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                env={
                    **os.environ,
                    "FRAMEJIT_STRICT": "1",
                    "OMP_NUM_THREADS": "1",
                    **self.environment,
                },
            )
            for rank in range(RANKS)
        ]

    def stop(self):
        for process in self.processes:
            process.kill()
            process.wait()
        self.processes = []

    def run(self, job, *args):
        """The results of a job, one a rank. Fails where a rank fails, or hangs."""
        if not self.processes:
            self.start()
        for process in self.processes:
            process.stdin.write(json.dumps([job, *args]) + "\n")
            process.stdin.flush()
        watch = threading.Timer(LIMIT_S, self.kill_all)
        watch.start()
        try:
            results = [self.answer_of(process) for process in self.processes]
        finally:
            watch.cancel()
        failures = [text for failed, text in results if failed]
        if failures:
            self.stop()
        assert not failures, f"{job}: " + "\n".join(failures)
        return [value for _, value in results]

    def kill_all(self):
        for process in self.processes:
            process.kill()

    @staticmethod
    def answer_of(process):
        for line in process.stdout:
            if line.startswith(MARK):
                return json.loads(line.removeprefix(MARK))
        return True, f"no result in {LIMIT_S} s"


def serve(rank, store):
    """Runs the jobs that come in, as one rank."""
    torch, dist = map(importlib.import_module, ("torch", "torch.distributed"))
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo",
        init_method=f"file://{store}",
        rank=rank,
        world_size=RANKS,
        timeout=datetime.timedelta(seconds=LIMIT_S / 2),
    )
    for line in sys.stdin:
        job, *args = json.loads(line)
        try:
            with contextlib.redirect_stdout(sys.stderr):
                module, _, name = job.rpartition(".")
                run = getattr(importlib.import_module(module or "programs"), name)
                answer = False, run(rank, *args)
        except BaseException:
            answer = True, f"rank {rank}: {traceback.format_exc()}"
        print(MARK + json.dumps(answer), flush=True)


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    serve(int(sys.argv[1]), sys.argv[2])
