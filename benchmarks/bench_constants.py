# ruff: noqa: INP001  # a script of its own, no package
"""Worth of the search's constants: what each saves beside its neutral value, at which it does nothing.

    python benchmarks/bench_constants.py [MODEL:BYTES | MODEL:least ...] [--only NAME ...]

A row per constant: the score with its neutral value, divided by the score with its own value. Above 1 the constant is worth something. The
row has the geometric mean, the best and the worst over all cases, and the CPU seconds of the searches likewise. A case is a network in a
budget, scored by replayed cycles, or ``least`` for its smallest schedule, scored by bytes. Every constant has a process of its own, so that
nothing is kept.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from fractions import Fraction
from importlib import import_module
from math import prod
from multiprocessing import get_context

from msgspec import Struct
from tabulate import tabulate

from cascader.ethosu.search.request import PERFORMANCE, SIZE, Run
from npu_model.errors import InputError
from npu_testbed.asked.request import requested
from npu_testbed.models.legalise import load_task
from npu_testbed.replays.scheduling import choice_of

CASES = (
    *("zoo:resnet8:32768", "zoo:ds_cnn:12288", "zoo:ds_cnn:20000", "zoo:tiny_residual:8192", "zoo:ds_cnn:least"),
    *("portfolio:inception:30000", "portfolio:mobilenet_v3:90000", "portfolio:unet_cropped:40000"),
)
"""Small networks of several kinds, where each search takes a few seconds."""

_FAR = 1 << 40


class Turn(Struct, frozen=True):
    """A constant of a module, and the value at which it does nothing."""

    module: str
    name: str
    neutral: object

    @property
    def label(self) -> str:
        """The constant and its value, short enough for a table."""
        return f"{self.module.rpartition('.')[2]}.{self.name} = {_short(self.neutral)}"

    def apply(self) -> None:
        """Give the constant its neutral value wherever it is known by its name."""
        own = getattr(import_module(self.module), self.name)
        for module in [module for name, module in sys.modules.items() if name.startswith(("cascader", "npu_testbed"))]:
            if getattr(module, self.name, None) is own:
                setattr(module, self.name, self.neutral)


def _short(value: object) -> str:
    if isinstance(value, tuple):
        return f"({', '.join(map(_short, value))})"
    return "far" if value == _FAR else str(value)


TURNS = (
    Turn("cascader.draft.drafter", "_TRUST", (Fraction(0),)),
    Turn("cascader.draft.drafter", "_TRUST", (Fraction(1),)),
    Turn("cascader.draft.drafter", "_SHARES", (Fraction(1),)),
    Turn("cascader.draft.drafter", "_PATIENT", 1),
    Turn("cascader.draft.drafter", "_UNSURE", Fraction(1)),
    Turn("cascader.draft.drafter", "_NEAR_SMALLEST", Fraction(1)),
    Turn("cascader.draft.drafter", "_SMALLEST_TRIES", 1),
    Turn("cascader.draft.placement", "_SEARCHES", 0),
    Turn("cascader.ethosu.search.hopeful", "STEPS", (Fraction(0),)),
    Turn("cascader.ethosu.search.hopeful", "ANYWHERE", ()),
    Turn("cascader.ethosu.search.search", "_TINY", 0),
    Turn("cascader.ethosu.search.replays", "CLOSE", 1.0),
    Turn("cascader.ethosu.search.replays", "FEW", 1),
    Turn("cascader.ethosu.search.replays", "REACH", _FAR),
    Turn("cascader.ethosu.search.replays", "QUICK_EFFORT", 0),
    Turn("cascader.ethosu.search.replayed_changes", "BLOCKS", 1),
    Turn("cascader.ethosu.cost.block_choice", "PROMISING", 1.0),
    Turn("cascader.ethosu.cost.block_choice", "WORTHWHILE", 1.0),
    Turn("cascader.ethosu.cost.estimate_terms", "BLOCKS", 1),
    Turn("cascader.ethosu.cost.estimate_terms", "PARTITIONS", 1),
    Turn("cascader.ethosu.cost.estimate_terms", "READ_PENALTY", 0.0),
    Turn("cascader.ethosu.cost.estimate_terms", "CONTENDED_SHARE", 1.0),
    Turn("cascader.ethosu.cost.coupling", "NEAR", _FAR),
    Turn("cascader.ethosu.forms.transposed", "WORTHWHILE", 1.0),
    Turn("cascader.ethosu.forms.transposed", "_TRIED", 1),
    Turn("cascader.ethosu.forms.reblock", "GAIN", 1.0),
    Turn("cascader.ethosu.forms.reblock", "FOLLOWED", 1),
    Turn("cascader.ethosu.forms.sizes", "_SLICES", (12,)),
    Turn("cascader.ethosu.forms.sizes", "_FINER", Fraction(1)),
    Turn("cascader.ethosu.forms.sizes", "_SMALL", 0),
    Turn("cascader.ethosu.forms.sizes", "_LARGE", _FAR),
    Turn("cascader.ethosu.forms.wide_copies", "_WORTHWHILE", 1),
    Turn("cascader.ethosu.search.origins", "QUICKER", 0),
)
"""Constants that steer the search. Constants of the device, of file formats and of compiled code do not count, and limits of time and
memory do not either."""

Scores = list[tuple[int, float]]
"""The score and the CPU seconds of each case."""


def measure(cases: Sequence[tuple[str, str]], turn: Turn | None = None) -> Scores:
    """The scores of all cases, with a constant turned."""
    if turn is not None:
        turn.apply()
    found = []
    for source, wanted in cases:
        start, smallest = time.process_time(), wanted == "least"
        budget, optimise = (None, SIZE) if smallest else (int(wanted), PERFORMANCE)
        asked = requested(source, budget=budget, optimise=optimise)
        point = choice_of(load_task(asked), asked, Run()).point
        found.append((point.memory if smallest else point.cycles, time.process_time() - start))
    return found


def _apart(cases: Sequence[tuple[str, str]], turn: Turn | None = None) -> Scores:
    """Like :func:`measure`, in a process of its own."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(measure, cases, turn).result()


def _row(label: str, own: Scores, turned: Scores) -> list[str]:
    ratios = [after / before for (before, _), (after, _) in zip(own, turned, strict=True)]
    seconds = sum(taken for _, taken in turned) / sum(taken for _, taken in own)
    return [label, f"{prod(ratios) ** (1 / len(ratios)):.4f}", f"{max(ratios):.4f}", f"{min(ratios):.4f}", f"{seconds:.2f}"]


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", default=CASES, metavar="MODEL:BYTES")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="constants with these names alone")
    options = parser.parse_args()
    cases = [(source, wanted) for source, _, wanted in (case.rpartition(":") for case in options.cases)]
    turns = [turn for turn in TURNS if options.only is None or turn.name in options.only]
    table = []
    try:
        own = _apart(cases)
        for turn in turns:
            table.append(_row(turn.label, own, _apart(cases, turn)))
            sys.stderr.write(f"{' '.join(table[-1])}\n")
    except InputError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    headers = ["constant, at", "mean", "most lost", "most won", "seconds"]
    sys.stdout.write(tabulate(table, headers, disable_numparse=True, colalign=("left", *("right",) * 4)) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
