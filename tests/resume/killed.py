"""The command, with a death in it: ``killed.py WHERE NUMBER ARGUMENTS...``, or ``killed.py`` alone.

It is ``dragoman ARGUMENTS...``, and ends itself by SIGKILL, which nothing can handle, when WHERE has happened NUMBER
times. With NUMBER 0 it lives, and says on its last line how often WHERE happened; so it does where torchrun starts it
again.

Without arguments it reads lines of JSON, ``{"folder": ..., "where": ..., "number": ..., "arguments": [...]}``, forks
for each a process that does so in that folder, and answers with its exit code: imports are paid for once.
"""

import json
import os
import resource
import shutil
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

import matplotlib.figure  # noqa: F401
import sacrebleu  # noqa: F401
import torch
import torch.utils.tensorboard  # noqa: F401

import dragoman.preparing.preparation
import dragoman.runs.running
import dragoman.shared.phases.generating
import dragoman.shared.training.update
from dragoman.cli.main import main
from dragoman.preparing.journal import Journal
from dragoman.shared.machine.processes import activity

MAKING = ("os.rename", "os.mkdir", "os.remove", "os.rmdir")


class Death:
    """Kills this process after a given number of events of one kind; its workers are not concerned."""

    def __init__(self, where, number):
        self.where, self.number, self.seen = where, number, 0
        self.process, self.folder = os.getpid(), str(Path.cwd())

    def due(self, what):
        """Count, and say whether it is time."""
        again = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0") != "0"
        if again or os.getpid() != self.process or self.where not in (what, "anything"):
            return False
        self.seen += 1
        return self.seen == self.number

    def come(self):
        if self.where.startswith("SIG"):  # torchrun gets it
            os.kill(os.getppid(), getattr(signal, self.where.split()[0]))
            time.sleep(2)  # what is left of the training would take less than handing on a signal
            return
        alone = self.where.startswith("rank")
        if os.environ.get("RANK", "1") == "0" and int(os.environ["WORLD_SIZE"]) > 1 and not alone:
            os.kill(os.getppid(), signal.SIGKILL)  # torchrun, before it can end the other process more gently
        os.kill(os.getpid(), signal.SIGKILL)

    def audit(self, event, arguments):
        """See the files below this folder that are opened for writing, made, renamed or removed."""
        path, writes = (arguments[0] if arguments else None), event in MAKING
        if event == "open":
            flags = arguments[2]
            writes = isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
        here = isinstance(path, str | Path) and str(path).startswith(self.folder)
        if writes and here and "tensorboard" not in str(path) and self.due("write"):
            self.come()

    def before(self, place, name, what):
        """Count the calls of a function."""
        real = getattr(place, name)

        def call(*arguments, **keywords):
            if self.due(what):
                self.come()
            return real(*arguments, **keywords)

        setattr(place, name, call)

    def rows(self, real):
        """Count the rows that are translated."""

        def translations(*arguments, **keywords):
            for found in real(*arguments, **keywords):
                if self.due("row"):
                    self.come()
                yield found

        return translations

    def half_written(self, real):
        """Die when half of a training state is written, at once or two updates later; or find the disk full."""

        def save(state, path, **options):
            if not isinstance(path, str | Path):  # what goes from process to process
                return real(state, path, **options)
            if self.due("full"):
                fill(Path.cwd())
            real(state, path, **options)
            late = self.due("late")
            update = activity.update
            while late and activity.update < update + 2:  # by another thread
                time.sleep(0.01)
            if late or self.due("checkpoint"):
                os.truncate(path, Path(path).stat().st_size // 2)
                self.come()

        return save


def fill(folder):
    """Fill a small disk; on a large one, let no file of this process grow beyond 20,000 bytes."""
    if shutil.disk_usage(folder).total > 2**26:
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
        return
    with open(folder / "filler", "wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(4096))


def run(where, number, arguments):
    death = Death(where, number)
    death.before(dragoman.shared.training.update, "step_if_finite", "update")
    death.before(dragoman.shared.training.update, "clip_gradient", f"rank {os.environ.get('RANK')}")
    if where.startswith("SIG") and where.endswith(f"rank {os.environ.get('RANK')}"):
        death.before(dragoman.shared.training.update, "clip_gradient", where)
    death.before(Journal, "add", "journal")
    dragoman.shared.phases.generating.translate_rows = death.rows(dragoman.shared.phases.generating.translate_rows)
    dragoman.preparing.preparation.CHUNK = 32  # rows between two notes of what was found
    torch.save = death.half_written(torch.save)
    sys.addaudithook(death.audit)
    sys.argv = ["dragoman", *arguments]
    try:
        main()
    finally:
        print(f"{where}: {death.seen}", flush=True)


def serve():
    for line in sys.stdin:
        task = json.loads(line)
        child = os.fork()
        if child == 0:
            os.chdir(task["folder"])
            for stream, name in ((1, "out.txt"), (2, "errors.txt")):
                os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644), stream)
            run(task["where"], task["number"], task["arguments"])
            sys.exit(0)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        print(status, flush=True)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        run(sys.argv[1], int(sys.argv[2]), sys.argv[3:])
    else:
        serve()
