"""TimingParameters: the timing model's assumptions about the NPU beyond its accelerator's tables, as one value."""

from __future__ import annotations

from enum import Enum
from fractions import Fraction

from msgspec import Struct

from npu_model.errors import InputError

HIDDEN_LATENCY = 64
"""Cycles of a memory's latency that estimates charge neither to copies nor to commands.

It is the latency of the flash for which replays confirm the estimates.
"""

DMA_CHUNK_BEATS = 32
"""Beats that the DMA reads before it writes them. Coarser than the hardware, to save events."""


class BlockdepRule(Enum):
    """Treatments of BLOCKDEP by the model; all but HONOURED are ablations."""

    __hash__ = object.__hash__  # An Enum's own runs in Python, at each look-up.

    HONOURED = "honoured"
    IGNORED = "ignored"
    DRAINED = "drained"
    """As if every kernel had BLOCKDEP 0."""


_LIMITS = {
    "pool_floor": (1, 64),
    "decoder_cycles_per_channel": (0, 64),
    "kept_ifm_blocks": (0, 64),
    "buffer_slots": (1, 64),
    "kernel_start_cycles": (0, 4096),
    "output_start_cycles": (0, 4096),
    "command_cycles_per_word": (0, 64),
    "ifm_burst_divisor": (1, 8),
    "weights_at_once": (1, 1 << 20),
    "drain_responses": (0, 16),
    "grant": (1, 1024),
    "lookahead": (0, 4096),
}


_SWITCHES = (
    "pool_passes",
    "depthwise_delays",
    "decodes_streams",
    "aligned_bursts",
    "posted_writes",
    "shram_drains",
    "weights_ahead",
    "shared_cap",
    "sliding_cap",
)


class TimingParameters(Struct, frozen=True):
    """Each mechanism of the timing model as a value, so that it can be calibrated or switched off.

    Cycles are NPU cycles. The defaults are what every other part of the package means by "the model"; the decision
    record on the timing model has the evidence for each. InputError if a value is out of its range.
    """

    pool_floor: int = 16
    """Least MAC cycles of a pooling ublock. Vela's cores say 4 and (Regor, 8-bit) 16; the FVP sides with 16 for 1x1 windows."""

    pool_passes: bool = True
    """Whether a pooling ublock is two passes with half the channels and half the floor each, and a step takes one more pass to fill.

    A fit.
    """

    depthwise_delays: bool = True
    """Whether the kernel steps of a depthwise convolution are delayed in every plane, by Vela's numbers: see
    :func:`npu_model.cost.cycles.kernel_step_delay`."""

    decoder_cycles_per_channel: int = 4
    """Weight-decoder cycles for 32 weights: 4 means 8 weights a cycle (Vela), and one turn of the decoder a cycle if the stream is known.
    """

    decodes_streams: bool = True
    """Whether a step's bytes and decoder cycles come from its weight stream, if that is known, instead of a share and 8 weights a cycle."""

    aligned_bursts: bool = True
    """Whether transactions of constants and copies end at multiples of the burst length (AXI_LIMIT's burst split alignment)."""

    output_scale: Fraction = Fraction(1)
    """Factor on the output unit's cycles per element: 1 is Vela's table."""

    output_start_cycles: int = 0
    """Cycles of the output unit before the first element of every OFM block."""

    kept_ifm_blocks: int = 2
    """IFM blocks that the input buffer keeps for the next OFM depth block: see :func:`npu_model.cost.traversal.keeps_ifm`."""

    buffer_slots: int = 2
    """Slots of every buffer between two units: IB0/IB1, DW0/DW1, ACC0/ACC1, OB0/OB1 (core driver, debug registers)."""

    kernel_start_cycles: int = 0
    """Cycles of the input load before the first fetch of every kernel."""

    blockdep: BlockdepRule = BlockdepRule.HONOURED
    """Whether a kernel waits for the previous one's blocks as its BLOCKDEP says."""

    drain_responses: int = 1
    """Write latencies that a kernel with BLOCKDEP 0 waits after the previous kernel's last write response. A fit."""

    posted_writes: bool = True
    """Whether a slot of the output buffer is free after its last data word is sent, and not after its last write response."""

    shram_drains: bool = True
    """Whether a changed SHRAM partition waits until all blocks of the previous kernel are stored."""

    weights_ahead: bool = True
    """Whether weights are fetched before a kernel's dependencies are met: they depend on no other kernel."""

    weights_at_once: int = 4096
    """Weights in one slot of the weight decoder's buffer: those of one tap for the deepest blocks (32 IFM, 128 OFM channels).

    A convolution's step with more weights is done in parts, some OFM ublocks in depth each.
    """

    command_cycles_per_word: int = 0
    """Cycles that the command processor takes for a word of the stream, in addition to its fetch: no number fits the FVP's cycles better
    than one.
    """

    ifm_burst_divisor: int = 2
    """IFM reads use this part of the burst limit: the FVP's cycles with memory latency fit reads of half a burst, 32 bytes on the U55."""

    grant: int = 8
    """Transactions that one channel of a port may issue before the next channel has its turn."""

    lookahead: int = 256
    """Cycles by which a transaction may be issued before the data path can take it, in addition to the latency.

    They are the cycles of 32 transactions of 64 bytes, which the core driver's defaults permit if the memory sets no limit.
    """

    shared_cap: bool = True
    """Whether the reads and the writes of a port count together under the timing adapter's cap."""

    sliding_cap: bool = True
    """Whether the cap holds in any window as long as a period, not only in each period."""

    def __post_init__(self) -> None:
        for key, (low, high) in _LIMITS.items():
            value = getattr(self, key)
            if type(value) is not int or not low <= value <= high:
                raise InputError(f"Timing parameter {key} is {value!r}: it ranges from {low} to {high}; give an integer in that range.")
        if not isinstance(self.output_scale, Fraction) or not 0 <= self.output_scale <= 64:
            raise InputError(f"Timing parameter output_scale is {self.output_scale!r}: it is a ratio from 0 to 64; write it as 1 or 7/6.")
        for key in _SWITCHES:
            if type(getattr(self, key)) is not bool:
                raise InputError(f"Timing parameter {key} is {getattr(self, key)!r}: it is a switch; write true or false.")

    def changed(self) -> tuple[str, ...]:
        """Names of the parameters that differ from the defaults."""
        return tuple(name for name in self.__struct_fields__ if getattr(self, name) != getattr(DEFAULT_TIMING, name))


DEFAULT_TIMING = TimingParameters()
"""The model."""
