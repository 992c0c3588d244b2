"""Accelerator: one MAC configuration of an Ethos-U55, U65 or U85, as data."""

from __future__ import annotations

import sys
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

from msgspec import Struct

from npu_model.errors import InputError
from npu_model.shapes import Shape3D, ceil_div

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

DEFAULT_ACCELERATOR = "ethos-u55-128"

_FOLDER = Path(__file__).parent / "data" / "accelerators"


class BankGranules(Struct, frozen=True):
    """Rounding of SHRAM areas, in banks of 1 KiB, by what the area holds (``ew``: elementwise IFM)."""

    ifm8: int
    ifm16: int
    ifm8_ew: int
    ifm16_ew: int
    ifm32: int
    acc16: int
    acc32: int
    acc40: int


class UnitMemories(Struct, frozen=True):
    """Bytes of the memories that the units have instead of parts of a shared buffer."""

    input: int
    accumulators: int
    chaining: int
    output: int


class OutputRates(Struct, frozen=True):
    """Cycles of the output unit per OFM element, by operation (first group) and by activation function."""

    unary32: Fraction
    binary32: Fraction
    mul32: Fraction
    mul: Fraction
    acc40: Fraction
    simple_add: Fraction
    scaled_add: Fraction
    max_pool: Fraction
    other: Fraction
    lut: Fraction
    relu: Fraction


class PortRates(Struct, frozen=True):
    """The units' access to memory, as the U65's published runs show it. The U55 has none of these rules.

    ``weight_bursts`` is the number of weight transactions that a core has under way, and ``fast_weight_bursts`` that of a kernel with fast
    weights; 0: as many. They fill all slots of the weight buffer and ``weight_steps`` more steps, because weights arrive compressed.
    Without ``weight_bursts`` a slot is requested when the previous slot is filled. ``scale_words`` is the size of the scales' own buffer,
    for which only the output unit waits; 0: scales follow the first weights of their block. ``ifm_ahead``: a slot of the input buffer is an
    IFM block, which the sub-kernels of an IFM depth share, and every free slot is requested at once. ``ifm_bytes_per_cycle`` bounds the
    input buffer's bytes per cycle; 0: no bound. ``kernel_start_cycles`` pass between a kernel's dependencies and its first fetch.
    ``own_channels``: each core takes only its own channels: of the IFM if an output channel needs no other, and of the OFM in the output
    unit. ``fetch_by_port``: each port to the external memory has a command fetch. ``sram_words`` bounds the words
    of SRAM that all ports together move in a cycle and direction; 0: no bound. ``ext_latency`` is added to the external memory's latency.
    """

    weight_bursts: int
    ifm_ahead: bool
    ifm_bytes_per_cycle: int
    kernel_start_cycles: int
    own_channels: bool = False
    sram_words: int = 0
    ext_latency: int = 0
    weight_steps: int = 1
    fast_weight_bursts: int = 0
    scale_words: int = 0
    fetch_by_port: bool = False

    @property
    def weight_steps_ahead(self) -> int:
        """Steps whose weights may be requested beyond the slots of the weight buffer."""
        return self.weight_steps if self.weight_bursts else 0


class ArrayRates(Struct, frozen=True):
    """The pace of an Ethos-U85's MAC array.

    ``lane_bits`` is the bits of the IFM's channels that a lane multiplies in a cycle. ``step_fill`` is the cycles in which a step of a
    convolution fills the array, ``pool_floor`` the least cycles of a pooling microblock, ``decoded_weights`` the weights that a decoder
    outputs in a cycle, ``fast_decoded_weights`` those of the one stream of fast weights.
    """

    lane_bits: int = 64
    step_fill: int = 0
    pool_floor: int = 1
    decoded_weights: int = 16
    fast_decoded_weights: int = 32


NO_GRANULES = BankGranules(1, 1, 1, 1, 1, 1, 1, 1)
"""The granules of an accelerator without a shared buffer."""


class Accelerator(Struct, frozen=True):
    """Everything that differs between the MAC configurations; each value's source is in its TOML file.

    ``macs`` and all of SHRAM are those of one of the ``cores``. ``commands`` is the layout of the command stream. ``uses`` are the
    supported steps: to read streams, run them bit by bit, replay them in time, and schedule networks. Without a shared buffer, ``granules``
    has no meaning, ``buffers`` has the separate memories, and ``array`` has the pace of the MAC array.
    """

    name: str
    macs: int
    cores: int
    ofm_ublock: Shape3D
    ifm_ublock: Shape3D
    shram_banks: int
    reserved_output_banks: int
    reserved_lut_banks: int
    lut_banks: int
    lut_address: int
    output: OutputRates
    access: PortRates
    elementwise_units: int
    port_bytes_per_cycle: int
    max_outstanding_kernels: int
    max_outstanding_dma: int
    max_block: Shape3D
    ofm_split_depth: int
    commands: str
    uses: tuple[str, ...]
    granules: BankGranules = NO_GRANULES
    buffers: UnitMemories | None = None
    array: ArrayRates = ArrayRates()
    weight_streams: int = 0
    sram_ports: int = 1
    ext_ports: int = 1
    max_blockdep: int = 3
    max_reads: int = 64
    max_writes: int = 32

    def __hash__(self) -> int:
        """Hash by name: the tables of one device are many numbers, and the device is a key of every cache."""
        return hash(self.name)

    def ifm_cycles_per_word(self, *, own_channels: bool = False) -> int:
        """Cycles per word at the input buffers; 0 for no limit.

        Every core needs all that a convolution reads. If output channels need only their ``own_channels``, each core takes its own part.

        >>> [accelerator("ethos-u65-512").ifm_cycles_per_word(own_channels=own) for own in (False, True)]
        [2, 0]
        """
        taken = self.access.ifm_bytes_per_cycle * (self.cores if own_channels and self.access.own_channels else 1)
        return ceil_div(self.port_bytes_per_cycle, taken) if 0 < taken < self.port_bytes_per_cycle else 0

    @property
    def family(self) -> str:
        """The product: ``u55``, ``u65`` or ``u85``."""
        return self.name.split("-")[1]

    @property
    def command_fetches(self) -> int:
        """Command fetches that go out together."""
        return self.ext_ports if self.access.fetch_by_port else 1

    @property
    def fetch_bytes(self) -> int:
        """Bytes of the command fetches that go out together.

        Each is 8 words of a port: the 64 bytes of the core driver's default burst on the U55, 128 on the others.
        """
        return 8 * self.port_bytes_per_cycle * self.command_fetches

    @property
    def macs_per_cycle(self) -> int:
        """MACs of all cores."""
        return self.macs * self.cores


def _shape(values: list[int]) -> Shape3D:
    return Shape3D(*values)


def _parse(name: str, table: dict[str, Any]) -> Accelerator:
    fields = {key: value for key, value in table.items() if not isinstance(value, dict)}
    for key in ("ofm_ublock", "ifm_ublock", "max_block"):
        fields[key] = _shape(fields[key])
    fields["uses"] = tuple(fields["uses"])
    for key, kind in (("granules", BankGranules), ("buffers", UnitMemories), ("array", ArrayRates)):
        if key in table:
            fields[key] = kind(**table[key])
    return Accelerator(
        name=name,
        output=OutputRates(**{key: Fraction(value) for key, value in table["output_cycles_per_element"].items()}),
        access=PortRates(**table["access"]),
        **fields,
    )


@cache
def _all_names() -> tuple[str, ...]:
    names = [entry.stem for entry in _FOLDER.glob("*.toml")]
    return tuple(sorted(names, key=lambda name: (name.rpartition("-")[0], int(name.rpartition("-")[2]))))


def accelerator_names(family: str = "") -> tuple[str, ...]:
    """The configurations for which networks are scheduled, by family and number of MACs; only those of ``family`` if it is given."""
    names = (name for name in _all_names() if "schedule" in accelerator(name).uses)
    return tuple(name for name in names if not family or accelerator(name).family == family)


_STEPS = {
    "run": ("run bit by bit", "inspect reads its streams"),
    "replay": ("simulated in time", "inspect reads its streams and verify runs them"),
    "schedule": ("searched for", "its streams are Vela's, which inspect, verify, simulate and check take"),
}
"""The word for each step, and its meaning if it is missing."""


def require_use(name: str, use: str) -> None:
    """InputError if an accelerator does not support a step yet: it names the step and the supported ones."""
    if use not in accelerator(name).uses:
        what, there = _STEPS[use]
        raise InputError(f"Programs of the {name} are not {what} yet: {there}; compile for an Ethos-U55 or Ethos-U65.")


@cache
def accelerator(name: str = DEFAULT_ACCELERATOR) -> Accelerator:
    """The accelerator of this Vela name (``ethos-u55-128``); InputError if there is none."""
    if name not in _all_names():
        raise InputError(f"Accelerator {name!r} is unknown: choose one of {', '.join(_all_names())}.")
    text = (_FOLDER / f"{name}.toml").read_text(encoding="utf-8")
    return _parse(name, tomllib.loads(text))
