"""The worth of each rule that holds for the Ethos-U65 alone: its measured inferences replayed without one of them, network by network.

Run as ``python -m validation.fvp.u65_rules``.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from npu_model.accelerator import Accelerator, accelerator
from npu_model.timing import DEFAULT_TIMING, TimingParameters
from validation.fvp.references.records import ReferencePoint, u65_points
from validation.fvp.scorecard import quick_score_point
from validation.fvp.scores import mean_error, worst_error
from validation.tables import Table, percent, share

RULES: tuple[tuple[str, dict[str, object]], ...] = (
    ("all rules", {}),
    ("IFM as fast as the ports", {"ifm_bytes_per_cycle": 0}),
    ("cores without channels of their own", {"own_channels": False}),
    ("a slot of the input buffer for each window, one asked for at a time", {"ifm_ahead": False}),
    ("weights slot by slot", {"weight_bursts": 0}),
    ("kernels begin at once", {"kernel_start_cycles": 0}),
    ("kernels begin after 30 cycles", {"kernel_start_cycles": 30}),
    (
        "none: the U55's",
        {"ifm_ahead": False, "own_channels": False} | dict.fromkeys(("ifm_bytes_per_cycle", "weight_bursts", "kernel_start_cycles"), 0),
    ),
)
"""Fields of :class:`npu_model.accelerator.Access` that each row changes."""

SHARED: tuple[tuple[str, TimingParameters], ...] = (
    ("IFM reads of 128 bytes, not 64", TimingParameters(ifm_burst_divisor=1)),
    ("IFM reads of 32 bytes, not 64", TimingParameters(ifm_burst_divisor=4)),
    ("BLOCKDEP 0 waits for one response", TimingParameters(drain_responses=0)),
    ("weights wait for the kernel's dependencies", TimingParameters(weights_ahead=False)),
    ("no drain at a SHRAM reconfiguration", TimingParameters(shram_drains=False)),
)
"""Rules of both families, as far as the U65's points see them."""

NOTICEABLE = 0.003
"""Change of a network's mean absolute error from which on it bears a rule (or speaks against it)."""


class RuleScore(Struct, frozen=True):
    """Errors of every point without one rule, in the order of the points."""

    name: str
    points: tuple[ReferencePoint, ...]
    errors: tuple[float, ...]

    def of(self, *, network: str | None = None, adapters: bool | None = None) -> list[float]:
        """The errors of a network, of the points with the adapters on or off, or of all."""
        return [
            error
            for point, error in zip(self.points, self.errors, strict=True)
            if network in (None, point.network) and adapters in (None, point.adapters)
        ]


def changed_device(name: str, changes: dict[str, object]) -> Accelerator:
    """An accelerator with these fields of its access, or of its MAC array, changed."""
    device = accelerator(name)
    array = {key: value for key, value in changes.items() if key in device.array.__struct_fields__}
    access = {key: value for key, value in changes.items() if key not in array}
    return replace(device, access=replace(device.access, **access), array=replace(device.array, **array))


def without(name: str, changes: dict[str, object], timing: TimingParameters, measured: Sequence[ReferencePoint]) -> RuleScore:
    """Replay the points with these fields of the access, or of the MAC array, changed."""
    errors = [quick_score_point(point, timing, changed_device(point.accelerator, changes)).error for point in measured]
    return RuleScore(name, tuple(measured), tuple(errors))


def bearers(full: RuleScore, less: RuleScore) -> str:
    """The networks whose mean absolute error grows without a rule, and those whose shrinks."""
    networks = dict.fromkeys(point.network for point in full.points)
    change = {name: mean_error(less.of(network=name)) - mean_error(full.of(network=name)) for name in networks}
    bear = [name for name in networks if change[name] >= NOTICEABLE]
    against = [name for name in networks if change[name] <= -NOTICEABLE]
    return ", ".join(bear) + (f"; against: {', '.join(against)}" if against else "")


def table(scores: Sequence[RuleScore], title: str = "The Ethos-U65 without a rule") -> Table:
    """Means and worst errors of each row, and the networks that bear the rule that it is without."""
    rows = tuple(
        (
            score.name,
            *(
                cell
                for on in (True, False)
                for cell in (share(mean_error(score.of(adapters=on))), percent(worst_error(score.of(adapters=on))))
            ),
            bearers(scores[0], score),
        )
        for score in scores
    )
    return Table(title, ("changed", "mean, on", "worst", "mean, off", "worst", "borne by"), rows)


def main() -> None:
    """Measure and print the table; a few seconds."""
    scores = [without(name, access, DEFAULT_TIMING, u65_points()) for name, access in RULES]
    scores += [without(name, {}, timing, u65_points()) for name, timing in SHARED]
    print(table(scores).markdown())  # noqa: T201  # this script exists to print the table


if __name__ == "__main__":
    main()
