"""The rules that hold for the Ethos-U65 alone: its measured inferences replayed without one of them."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from npu_model.accelerator import Accelerator, accelerator
from npu_model.timing import TimingParameters
from validation.fvp.references.records import ReferencePoint
from validation.fvp.scorecard import score_point
from validation.fvp.scores import mean_error

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


class RuleScore(Struct, frozen=True):
    """Errors of every point without one rule, in the order of the points."""

    name: str
    points: tuple[ReferencePoint, ...]
    errors: tuple[float, ...]

    @property
    def by_network(self) -> dict[str, float]:
        """The mean absolute error of each network."""
        return {name: mean_error(self.of(network=name)) for name in dict.fromkeys(point.network for point in self.points)}

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
    errors = [score_point(point, timing, changed_device(point.accelerator, changes)).error for point in measured]
    return RuleScore(name, tuple(measured), tuple(errors))
