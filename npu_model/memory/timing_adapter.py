"""Timing-adapter profiles: the throttles that Corstone platforms put before the memories, as TOML and as a MemorySystem."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from msgspec import Struct

from npu_model.errors import InputError
from npu_model.memory.mode import MemoryMode, port_number
from npu_model.memory.system import AXI0, AXI1, Memory, MemorySystem, Pulse
from npu_model.printable import printable, shown, text_of
from npu_model.toml_text import parse_toml

_FOLDER = Path(__file__).parents[1] / "data" / "timing_adapters"

_LIMITS = {
    # The widths of the adapter's register fields (Arm ml-embedded-evaluation-kit, timing_adapters.md).
    "maxr": 63,
    "maxw": 63,
    "rlatency": 4095,
    "wlatency": 4095,
    "pulse_on": 65535,
    "pulse_off": 65535,
    "bwcap": 65535,
}
_BURSTS = (64, 128, 256)
_MAX_CLOCK_HZ = 100_000_000_000
_AREAS = ("const_mem_area", "arena_mem_area", "cache_mem_area")


class TimingAdapter(Struct, frozen=True):
    """One adapter's parameters, under Arm's names in lower case; InputError if a register cannot hold one.

    ``maxr`` and ``maxw`` bound the outstanding reads and writes (0: no bound), ``rlatency`` and ``wlatency`` are the least
    cycles of each. Addresses pass in ``pulse_on`` of every ``pulse_on + pulse_off`` cycles, and until ``bwcap`` bus words, reads
    and writes together, were accepted in that period (0: no cap).
    """

    maxr: int
    maxw: int
    rlatency: int
    wlatency: int
    pulse_on: int
    pulse_off: int
    bwcap: int

    def __post_init__(self) -> None:
        for key, limit in _LIMITS.items():
            value = getattr(self, key)
            if type(value) is not int:
                raise InputError(f"{key.upper()} is {shown(value)}: an integer from 0 to {limit} is needed; write a plain number.")
            if not 0 <= value <= limit:
                wraps = f" ({value} would wrap to {value & limit} in its register)" if value > limit else ""
                remedy = "write 0 for no bound" if key in ("maxr", "maxw", "bwcap") and value > limit else "write a value in range"
                raise InputError(f"{key.upper()} is {value}{wraps}: the range is 0 to {limit}; {remedy}.")
        if not self.pulse_on and (self.bwcap or self.pulse_off):
            raise InputError("PULSE_ON is 0, so that no address ever passes: set it to 1 or more, or PULSE_OFF and BWCAP to 0 as well.")

    def memory(self, name: str, burst_bytes: int, *, shared: bool) -> Memory:
        """The memory as the NPU sees it through the adapter: a word a cycle, gated by the pulse."""
        gated = self.bwcap or self.pulse_off
        return Memory(
            name=name,
            read_latency=self.rlatency,
            write_latency=self.wlatency,
            max_reads=self.maxr,
            max_writes=self.maxw,
            burst_bytes=burst_bytes,
            shared=shared,
            pulse=Pulse(self.pulse_on, self.pulse_off, self.bwcap) if gated else None,
        )


class TimingProfile(Struct, frozen=True):
    """The adapters before SRAM (AXI0) and external memory (AXI1), the NPU's burst and clock, and the memory mode.

    ``shared_data_path`` says that reads and writes of one port take turns on its data words.
    Change a parameter with ``msgspec.structs.replace(profile, ext=replace(profile.ext, rlatency=16))``.
    """

    name: str
    clock_hz: int
    burst_bytes: int
    shared_data_path: bool
    memory_mode: MemoryMode
    sram: TimingAdapter
    ext: TimingAdapter

    def memory_system(self) -> MemorySystem:
        """The memory system that the NPU sees."""
        adapters = {AXI0: ("sram", self.sram), AXI1: ("ext", self.ext)}
        memories = {port: ta.memory(name, self.burst_bytes, shared=self.shared_data_path) for port, (name, ta) in adapters.items()}
        used = {port: memories[port] for port in self.memory_mode.used_ports}
        return self.memory_mode.system(f"timing adapter {self.name}", self.clock_hz, used)


def _table(table: dict[str, Any], key: str, keys: tuple[str, ...]) -> dict[str, Any]:
    """A sub-table that holds exactly ``keys``."""
    value = table.get(key)
    if not isinstance(value, dict):
        raise InputError(f"The timing-adapter profile has no [{key}] table: add one with {', '.join(keys)}.")
    _expect(f"[{key}]", value, keys)
    return value


def _expect(what: str, table: dict[str, Any], keys: tuple[str, ...]) -> None:
    missing, extra = [k for k in keys if k not in table], sorted(k for k in table if k not in keys)
    if missing or extra:
        fault = f"lacks {', '.join(missing)}" if missing else f"has the unknown {printable(', '.join(extra))}"
        raise InputError(f"{what} of the timing-adapter profile {fault}: it takes {', '.join(keys)}.")


def _adapter(table: dict[str, Any], key: str) -> TimingAdapter:
    names = TimingAdapter.__struct_fields__
    values = _table(table, key, tuple(name.upper() for name in names))
    return TimingAdapter(**{name: values[name.upper()] for name in names})


def parse_profile(name: str, text: str) -> TimingProfile:
    """The profile that a TOML text describes; ``name`` is its name in reports.

    Keys: ``clock_hz``, ``burst_bytes`` (the driver's AXI burst: 64, 128 or 256), ``shared_data_path``, a table ``[memory_mode]`` with
    Vela's three keys, and tables ``[sram]`` and ``[ext]`` with the adapter's parameters under Arm's names. InputError names the fault.
    """
    table = parse_toml(text, "The timing-adapter profile", "write key = value lines")
    _expect("The top level", table, ("clock_hz", "burst_bytes", "shared_data_path", "memory_mode", "sram", "ext"))
    clock, burst, shared = table["clock_hz"], table["burst_bytes"], table["shared_data_path"]
    if type(clock) is not int or not 1 <= clock <= _MAX_CLOCK_HZ:
        raise InputError(f"clock_hz is {shown(clock)}: an integer from 1 to {_MAX_CLOCK_HZ} is needed; write the NPU's clock in Hz.")
    if type(burst) is not int or burst not in _BURSTS:
        raise InputError(
            f"burst_bytes is {shown(burst)}: the NPU splits bursts at {', '.join(map(str, _BURSTS))} bytes; write one of these."
        )
    if type(shared) is not bool:
        raise InputError(f"shared_data_path is {shown(shared)}: true or false is needed; write whether reads and writes take turns.")
    areas = _table(table, "memory_mode", _AREAS)
    mode = MemoryMode(*(port_number(key, areas[key]) for key in _AREAS))
    return TimingProfile(text_of(name), clock, burst, shared, mode, _adapter(table, "sram"), _adapter(table, "ext"))


@cache
def profile_names() -> tuple[str, ...]:
    """Names that :func:`profile` knows, in alphabetical order."""
    return tuple(sorted(entry.stem for entry in _FOLDER.glob("*.toml")))


@cache
def profile(name: str) -> TimingProfile:
    """The built-in profile of this name; InputError if there is none."""
    if name not in profile_names():
        raise InputError(f"Timing-adapter profile {name!r} is unknown: choose one of {', '.join(profile_names())}.")
    text = (_FOLDER / f"{name}.toml").read_text(encoding="utf-8")
    return parse_profile(name, text)
