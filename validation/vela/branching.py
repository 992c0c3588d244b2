"""A process of Vela's Python core that continues as several processes.

Its program text runs in a child, so it needs none of our modules.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Sequence
from typing import Any

STREAMS = ("stdout", "stderr")
"""Files for Vela's output, in the order of its streams' numbers, from 1 on."""


class Branches:
    """Copies of this process, one for each limit: a strategy and a number of bytes ("Performance:65536"), or none ("Size:").

    Copy N works in folder N of ``base``, and leaves there what Vela writes in ``out``, what it says in :data:`STREAMS`, and then how it
    ended in ``status``. So many work ``at_once``. Each has ``seconds`` of time, and so has their common work. Each calls ``begun``.
    """

    def __init__(self, base: str, limits: Sequence[str], at_once: int, seconds: int, begun: Callable[[], object]) -> None:
        self._base, self._limits, self._at_once, self._seconds, self._begun = base, limits, at_once, seconds, begun
        self._running: dict[int, str] = {}
        self._branched = False

    def prepare(self) -> None:
        """Have this process branch where Vela's scheduler first reads its ``sram_limit``, on which no earlier work depends."""
        import ethosu.vela.vela  # noqa: F401, PLC0415  # Vela's modules need each other in this order
        from ethosu.vela import scheduler  # noqa: PLC0415

        def limit(one: Any) -> Any:
            if not self._branched:
                self._branched = True
                self._branch(one, scheduler.OptimizationStrategy)
            return one.__dict__["sram_limit"]

        def keep(one: Any, size: int) -> None:
            one.__dict__["sram_limit"] = size

        scheduler.Scheduler.sram_limit = property(limit, keep)
        signal.alarm(self._seconds)

    def _branch(self, one: Any, strategies: Any) -> None:
        """Come back in each copy; this process ends with the last of them."""
        # The size of a fast scratch memory was requested before.
        if one.arch.is_spilling_enabled():
            os._exit(1)
        signal.alarm(0)
        sys.stdout.flush()
        sys.stderr.flush()
        for number, text in enumerate(self._limits):
            folder = f"{self._base}/{number}"
            os.makedirs(f"{folder}/out")  # noqa: PTH103  # pathlib takes longer to import than all that is done here
            if len(self._running) == self._at_once:
                self._collect()
            process = os.fork()
            if process == 0:
                self._begin(folder)
                optimise, _, size = text.partition(":")
                one.scheduler_options.optimization_strategy = strategies[optimise]
                if size:
                    one.sram_limit = one.scheduler_options.optimization_sram_limit = one.arch.arena_cache_size = int(size)
                return
            self._running[process] = folder
        while self._running:
            self._collect()
        os._exit(0)

    def _begin(self, folder: str) -> None:
        """Make this copy one that writes into its own folder, ends in time, and ends with the process that started it all."""
        os.chdir(folder)
        for stream, name in enumerate(STREAMS, 1):
            os.dup2(os.open(name, os.O_CREAT | os.O_WRONLY), stream)
        signal.alarm(self._seconds)
        self._begun()

    def _collect(self) -> None:
        """Wait for a copy, and return how it ended."""
        process, status = os.wait()
        with open(f"{self._running.pop(process)}/status", "w", encoding="ascii") as file:  # noqa: PTH123  # as above
            file.write(str(os.waitstatus_to_exitcode(status)))
