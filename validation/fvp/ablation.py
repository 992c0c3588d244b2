"""The effect of each mechanism of the timing model: measured inferences are replayed with one mechanism switched off."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from msgspec import Struct

from npu_model.timing import DEFAULT_TIMING, BlockdepRule, TimingParameters
from validation.fvp.references.records import ReferencePoint, WholeRun
from validation.fvp.scorecard import score_point, score_whole_run
from validation.fvp.scores import ScoreSummary, mean_error, summarise, worst_error

ABLATIONS: tuple[tuple[str, TimingParameters], ...] = (
    ("full model", DEFAULT_TIMING),
    ("single buffers, not double", TimingParameters(buffer_slots=1)),
    ("no output-unit (AO) cost", TimingParameters(output_scale=Fraction(0))),
    ("BLOCKDEP ignored", TimingParameters(blockdep=BlockdepRule.IGNORED)),
    ("BLOCKDEP 0 everywhere", TimingParameters(blockdep=BlockdepRule.DRAINED)),
    ("no drain at a SHRAM reconfiguration", TimingParameters(shram_drains=False)),
    ("weights wait for the kernel's dependencies", TimingParameters(weights_ahead=False)),
    ("pooling floor 4, not 16", TimingParameters(pool_floor=4)),
    ("pooling ublocks whole, none to fill", TimingParameters(pool_passes=False)),
    ("BLOCKDEP 0 waits for one response", TimingParameters(drain_responses=0)),
    ("output buffer kept for the response", TimingParameters(posted_writes=False)),
    ("weights of a step all at once", TimingParameters(weights_at_once=1 << 20)),
    ("no delay between depthwise kernel steps", TimingParameters(depthwise_delays=False)),
    ("weights dealt in proportion, 8 a cycle", TimingParameters(decodes_streams=False)),
    ("transactions cut where they start", TimingParameters(aligned_bursts=False)),
    ("no weight-decoder floor", TimingParameters(decoder_cycles_per_channel=0)),
    ("decoder twice as fast", TimingParameters(decoder_cycles_per_channel=2)),
    ("IFM reads of 64 bytes, not 32", TimingParameters(ifm_burst_divisor=1)),
    ("reads and writes with a cap each", TimingParameters(shared_cap=False)),
    ("cap counted anew with each period", TimingParameters(sliding_cap=False)),
    ("IFM never kept in its buffers", TimingParameters(kept_ifm_blocks=0)),
    ("IFM kept in one buffer, not two", TimingParameters(kept_ifm_blocks=1)),
    ("command words parsed one a cycle", TimingParameters(command_cycles_per_word=1)),
    ("ports: one transaction a turn, not 8", TimingParameters(grant=1)),
    ("ports: no issue ahead of the data path", TimingParameters(lookahead=0)),
)
"""The mechanisms. Each entry is the model with one value changed."""

CANDIDATES: tuple[tuple[str, TimingParameters], ...] = (
    ("AO at 7/6 of Vela's table", TimingParameters(output_scale=Fraction(7, 6))),
    ("AO: 8 cycles before every block", TimingParameters(output_start_cycles=8)),
    ("40 cycles before every kernel", TimingParameters(kernel_start_cycles=40)),
    ("pooling floor 20, not 16", TimingParameters(pool_floor=20)),
)
"""Changes that were considered and are not in the model, because only the errors would support them."""


class AblationScore(Struct, frozen=True):
    """Errors with one mechanism switched off; ``axi0_read`` is the worst error of the AXI0 read beats.

    ``small_mean`` and ``small_worst`` belong to the class "small kernels, cascade".
    """

    name: str
    on: ScoreSummary
    off: ScoreSummary
    axi0_read: float
    small_mean: float
    small_worst: float


def ablate(name: str, timing: TimingParameters, measured: Sequence[ReferencePoint], runs: Sequence[WholeRun] = ()) -> AblationScore:
    """Replay ``measured`` and ``runs`` with the model changed to ``timing``."""
    scores = [score_point(point, timing) for point in measured]
    reads = [beats.error for score in scores for beats in score.beats if beats.port == "AXI0_RD"]
    small = [score_whole_run(run, timing).error for run in runs]
    on, off = (summarise(scores, adapters=adapters) for adapters in (True, False))
    return AblationScore(name, on, off, max(reads, key=abs, default=0.0), mean_error(small), worst_error(small))
