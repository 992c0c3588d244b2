"""The two sides of a comparison: anything that can be replayed, each with its own options."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from npu_model.compiled.containers import read_container, unpacked
from npu_model.errors import InputError
from npu_model.timing import DEFAULT_TIMING, TimingParameters
from npu_testbed.input_shapes import ShapedSource
from npu_testbed.memory_options import NO_OPTIONS, MemoryOptions
from npu_testbed.models import BUILT
from npu_testbed.progress import Progress, silent
from npu_testbed.scheduling import read_schedule
from npu_testbed.simulation import NO_VELA_OPTIONS, Simulation, VelaOptions, simulate_schedule, simulate_vela
from validation.reading import read_file


class Side(Struct, frozen=True):
    """A schedule file, a ``*_vela.tflite``, or a network that Vela compiles, and what it is compiled for and replayed on."""

    source: str
    options: VelaOptions = NO_VELA_OPTIONS
    memory: MemoryOptions = NO_OPTIONS
    timing: TimingParameters | None = None
    """The NPU's parameters; None: those which a schedule was made for, else the model's own."""


def _is_schedule(source: str) -> bool:
    return not source.startswith(BUILT) and read_file(source, "File")[:64].lstrip()[:1] == b"{"


def is_scheduled(source: str) -> bool:
    """Whether a source is a schedule file or a compiled network; InputError if it cannot be read."""
    if source.startswith(BUILT):
        return False
    return _is_schedule(source) or read_container(unpacked(read_file(source, "File"))) is not None


def replay_side(side: Side, progress: Progress = silent) -> Simulation:
    """The replay of a side; InputError if it cannot be read, or options of a compilation are given for what is scheduled already."""
    if not _is_schedule(side.source):
        timing = side.timing or DEFAULT_TIMING
        return simulate_vela(side.source, side.options, side.memory, progress=progress, timing=timing)
    if isinstance(side.source, ShapedSource):
        raise InputError(f"{Path(side.source).name} is scheduled already, so that --input-shape cannot change it: leave it out.")
    if side.options.given:
        name = Path(side.source).name
        raise InputError(f"{name} is scheduled already, so that {' and '.join(side.options.given)} cannot change it: leave them out.")
    plan = read_schedule(side.source)
    side.options.require_npu(Path(side.source).name, plan.accelerator)
    return simulate_schedule(plan, side.memory, progress=progress, timing=side.timing)


def pair(name: str, text: str | None) -> tuple[str | None, str | None]:
    """The values of an option for both sides: one holds for both, two with a comma between them for one each.

    >>> pair("--optimise", "Size,Performance"), pair("--optimise", "Size"), pair("--optimise", None)
    (('Size', 'Performance'), ('Size', 'Size'), (None, None))
    """
    if text is None:
        return None, None
    values = text.split(",")
    if len(values) > 2 or not all(values):
        raise InputError(f"{name} {text!r} has {len(values)} values: give one for both sides, or two with a comma between them.")
    return values[0], values[-1]
