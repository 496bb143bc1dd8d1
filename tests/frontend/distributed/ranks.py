"""Two processes of one gloo group, which run jobs of programs.py when the tests ask for them.

As a script, this imports torch and forks both processes for each line of input. To them a line of
input names a job (of programs.py, or with the module), a line of output is its result as JSON."""

from __future__ import annotations

import contextlib
import datetime
import importlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import traceback
from pathlib import Path

RANKS = 2
LIMIT_S = 60  # for a job; a hang fails the test
MARK = "RESULT "


class RankServer:
    """A process that has imported torch, and forks the two. It ends with the `with` statement."""

    def __init__(self):
        self.process = subprocess.Popen(
            [sys.executable, "-W", "ignore", __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "FRAMEJIT_STRICT": "1", "OMP_NUM_THREADS": "1"},
        )

    def __enter__(self):
        return self

    def __exit__(self, *exc_info):
        self.process.communicate()

    def start(self, environment):
        """New processes, with these variables of their environment."""
        folder = tempfile.mkdtemp()
        for rank in range(RANKS):
            os.mkfifo(f"{folder}/in{rank}")
            os.mkfifo(f"{folder}/out{rank}")
        print(json.dumps([folder, environment]), file=self.process.stdin, flush=True)
        pids = json.loads(self.process.stdout.readline())
        return [Rank(folder, rank, pid) for rank, pid in enumerate(pids)]


class Rank:
    """One of the processes."""

    def __init__(self, folder, rank, pid):
        self.pid = pid
        self.stdin = open(f"{folder}/in{rank}", "w")
        self.stdout = open(f"{folder}/out{rank}")

    def kill(self):
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)

    def wait(self):
        """Until the process has ended."""
        self.stdout.read()
        self.stdout.close()
        with contextlib.suppress(BrokenPipeError):
            self.stdin.close()


class Ranks:
    """The processes. `run` gives each the same job; after a failure new ones are started."""

    def __init__(self, server, environment):
        self.server = server
        self.environment = environment
        self.processes = []

    def stop(self):
        for process in self.processes:
            process.kill()
            process.wait()
        self.processes = []

    def run(self, job, *args):
        """The results of a job, one a rank. Fails where a rank fails, or hangs."""
        if not self.processes:
            self.processes = self.server.start(self.environment)
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


def fork_ranks():
    """Starts both processes for each line that comes in."""
    importlib.import_module("torch.distributed.tensor.parallel")
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for them
    while asked := sys.stdin.readline():
        folder, environment = json.loads(asked)
        pids = []
        for rank in range(RANKS):
            pid = os.fork()
            if pid == 0:
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                os.dup2(2, 1)
                os.environ.update(environment)
                sys.stdin, sys.stdout = open(f"{folder}/in{rank}"), open(f"{folder}/out{rank}", "w")
                serve(rank, f"{folder}/store")
                return
            pids.append(pid)
        print(json.dumps(pids), flush=True)


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    fork_ranks()
