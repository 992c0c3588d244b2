"""The answer of a command in one line: time at the clock, bytes, whether they fit, and whether a deadline is met."""

from __future__ import annotations

from msgspec import Struct

from npu_model.compiled.network import CpuOperator
from npu_model.printable import printable
from npu_testbed.replays.simulation import Simulation


def kibibytes(size: int) -> str:
    """A size as a person says it, rounded up to a tenth of a unit; in bytes below 1 KiB.

    >>> kibibytes(14496), kibibytes(65536), kibibytes(960), kibibytes(4_194_304)
    ('14.2 KiB', '64 KiB', '960 bytes', '4 MiB')
    """
    if size < 1 << 10:
        return f"{size:,} bytes"
    unit, name = (1 << 20, "MiB") if size >= 1 << 20 else (1 << 10, "KiB")
    return f"{-(-size * 10 // unit) / 10:,g} {name}"


def milliseconds(cycles: int, clock_hz: int) -> str:
    """The time of ``cycles``, to three digits.

    >>> milliseconds(13_601, 500_000_000), milliseconds(7_292_897, 500_000_000), milliseconds(60_000_000_000, 500_000_000)
    ('0.0272 ms', '14.6 ms', '120,000 ms')
    """
    value = cycles / clock_hz * 1000
    return f"{value:,.0f} ms" if value >= 1000 else f"{value:.3g} ms"


def headline(simulation: Simulation) -> str:
    """A replay in one line: its network and NPU, its time, its bytes, and whether they fit into the granted bytes."""
    cycles, size, granted = simulation.replay.cycles, simulation.planned_bytes, simulation.granted_bytes
    clock = simulation.system.clock_hz
    on_cpu = any(isinstance(step, CpuOperator) for step in simulation.network.steps)
    time = f"{milliseconds(cycles, clock)}{' on the NPU' if on_cpu else ''} ({cycles:,} cycles at {clock / 1e6:g} MHz)"
    fits = "" if granted is None else f", which {'fits' if size <= granted else 'does not fit'} {granted:,} bytes"
    return f"{printable(simulation.model)} on {simulation.device.name}: {time} in {kibibytes(size)} of {simulation.memory_name}{fits}."


class Rival(Struct, frozen=True):
    """Another schedule of the same network for comparison: its name, cycles and bytes."""

    name: str
    cycles: int
    bytes: int


def rival_sentence(rival: Rival, clock_hz: int) -> str:
    """The time and the bytes of another schedule.

    >>> rival_sentence(Rival("Vela Performance", 7_292_897, 65_536), 500_000_000)
    'Vela Performance needs 14.6 ms (7,292,897 cycles) in 64 KiB.'
    """
    return f"{rival.name} needs {milliseconds(rival.cycles, clock_hz)} ({rival.cycles:,} cycles) in {kibibytes(rival.bytes)}."


def deadline_sentence(cycles: int, clock_hz: int, milliseconds: float) -> str:
    """A sentence that says whether ``cycles`` at a clock take at most ``milliseconds``.

    >>> deadline_sentence(500_000, 500_000_000, 2)
    'The NPU takes 1.000 ms at 500 MHz: the deadline of 2 ms is met.'
    """
    took = cycles * 1000 / clock_hz
    verdict = "met" if took <= milliseconds else "missed"
    return f"The NPU takes {took:.3f} ms at {clock_hz / 1e6:g} MHz: the deadline of {milliseconds:g} ms is {verdict}."


def cycles_in(milliseconds: float, clock_hz: int) -> int:
    """The whole cycles of a clock in ``milliseconds``."""
    return int(milliseconds * clock_hz / 1000)
