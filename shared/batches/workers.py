"""Worker processes of the loader: how they start, what they are given, and how they end.

Signals reach all processes of a run; the training process alone decides when its workers end.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import torch
from torch.utils.data import DataLoader, Dataset, Sampler

#: Batches that each worker keeps ready.
AHEAD = 4

#: How workers are started. Forked ones start at once and need no importable main module. They touch neither the
#: accelerator nor, with one thread each, OpenMP's pool, which are what a fork breaks; elsewhere than on Linux, the
#: system's own libraries break too.
START_METHOD = "fork" if sys.platform == "linux" else "spawn"


class Feed(Sampler):
    """The work items that the workers are given; replaced for each epoch, while the workers live on."""

    def __init__(self, items: Iterable[object] = ()) -> None:
        self.items = items

    def __iter__(self) -> Iterator[object]:
        return iter(self.items)


def data_loader(dataset: Dataset, feed: Feed, workers: int, *, keep: bool, pin_memory: bool) -> DataLoader:
    """Return torch's loader of finished batches, one of each item; ``keep``: its workers live on after the last."""
    return DataLoader(
        dataset,
        batch_size=None,
        sampler=feed,
        num_workers=workers,
        collate_fn=_as_it_is,
        worker_init_fn=_start_worker,
        persistent_workers=keep and workers > 0,
        prefetch_factor=AHEAD if workers else None,
        multiprocessing_context=START_METHOD if workers else None,
        pin_memory=pin_memory,
        generator=torch.Generator(),  # or it would draw from the global one, and shift the model's random numbers
    )


@contextmanager
def signals_held_back() -> Iterator[None]:
    """Let SIGINT and SIGTERM wait while workers start.

    In the middle of it, the interpreter would complain about half of a pool of workers, or a worker that does not
    ignore the signal yet about itself.
    """
    if threading.current_thread() is not threading.main_thread():  # no signal interrupts it
        yield
        return
    arrived: list[int] = []
    waiting = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.signal(number, lambda number, _frame: arrived.append(number)) for number in waiting}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for late in dict.fromkeys(arrived):
            signal.raise_signal(late)


def _start_worker(number: int) -> None:
    # Signals reach the whole group; the main process finishes what it is at, and then ends its workers.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if sys.platform == "linux":  # elsewhere, nobody says who has sent a signal
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
        threading.Thread(target=_obey, args=(os.getppid(),), daemon=True).start()
    torch.set_num_threads(1)


def _obey(parent: int) -> None:
    """End this worker when its parent, and nobody else, sends SIGTERM."""
    if sys.platform == "linux":
        while signal.sigwaitinfo({signal.SIGTERM}).si_pid != parent:
            pass
        os._exit(0)


def _as_it_is(batch: object) -> object:
    return batch
