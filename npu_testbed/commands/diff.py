"""``npu-testbed diff``: the differences between two schedules of a network, or two configurations."""

# No `from __future__ import annotations`: fields of Asks are read as values.
import argparse
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from npu_model.errors import InputError
from npu_testbed.asked import kinds
from npu_testbed.asked.ask import OfModels
from npu_testbed.asked.option import Group, Option
from npu_testbed.asked.readers import byte_count

if TYPE_CHECKING:
    from npu_testbed.commands.simulate import SimulateVela
    from npu_testbed.ground.progress import Progress
    from npu_testbed.outcomes.differences import DiffOutcome
    from npu_testbed.replays.simulation import Simulation

SIDES = Group("memory system", "Default: the memory system of the schedule, or else the timing adapter u55_high_end.")


class DiffOptions(OfModels["DiffOutcome"], frozen=True, kw_only=True):
    """The options of ``diff``: each has one value for both sides, or one for each with a comma between them."""

    all: Annotated[bool, Option("show every layer that is different")] = False
    energy: kinds.Energy = None
    accelerator_config: Annotated[str | None, Option("accelerator (default: ethos-u55-128)", "NAME[,NAME]", group=kinds.COMPILATION)] = None
    optimise: Annotated[
        str | None, Option("Performance or Size (default: Performance)", "STRATEGY[,STRATEGY]", group=kinds.COMPILATION)
    ] = None
    arena_cache_size: Annotated[
        str | None, Option("Vela's limit of the arena (default: Vela's own)", "BYTES[,BYTES]", group=kinds.COMPILATION)
    ] = None
    chip: Annotated[str | None, Option("chips of `npu-testbed --list-chips`, or .toml files", "NAME[,NAME]", group=SIDES)] = None
    timing_adapter: Annotated[
        str | None, Option("timing-adapter profiles: u55_high_end, off, or .toml files", "NAME[,NAME]", group=SIDES)
    ] = None
    system_config: Annotated[str | None, Option("system configs of Vela's configuration", "NAME[,NAME]", group=SIDES)] = None
    memory_mode: Annotated[str | None, Option("memory modes of Vela's configuration", "NAME[,NAME]", group=SIDES)] = None
    config: Annotated[
        str | None,
        Option("configuration files to read these from (default: the vela.ini of Vela)", "INI[,INI]", group=SIDES),
    ] = None
    set: Annotated[
        str | Sequence[str] | Mapping[str, "str | int"],
        Option(
            "what if: a parameter of a memory, such as ext.read_latency=24,64, or clock_hz (repeatable)",
            "MEMORY.PARAMETER=VALUE[,VALUE]",
            group=SIDES,
            many=True,
        ),
    ] = ()
    timing: Annotated[
        str | None,
        Option(
            "timing parameters of the NPU, as `calibrate fit` writes them, or `model` for the model's own (default: "
            "those of the schedule, or else the model's own)",
            "PROFILE[,PROFILE]",
        ),
    ] = None


class Diff(DiffOptions, frozen=True):
    """Say what moved between two schedules or configurations, layer by layer.

    Both sides are replayed. The answer lists the differences: cycles, SRAM and traffic of the whole; then each layer's cycles, kernels,
    blocks, layouts, copies and bound, the largest difference first. A side is a schedule file, a *_vela.tflite, or a network, which Vela
    compiles. An option with two values and a comma between them is for one side each.
    """

    examples: ClassVar[tuple[str, ...]] = (
        "npu-testbed diff before.json after.json",
        "npu-testbed diff zoo:ds_cnn --optimise Size,Performance",
        "npu-testbed diff network_vela.tflite --timing-adapter u55_high_end,off",
    )

    before: Annotated[kinds.Source, Option(kinds.ANY_FILE, "BEFORE", source=True)]
    after: Annotated[kinds.Source | None, Option("another one (default: BEFORE, with other options)", "AFTER", source=True)] = None

    def answer(self, show: "Progress") -> "DiffOutcome":
        """Replay both sides."""
        from npu_testbed.differences.difference_tables import SHOWN
        from npu_testbed.energy import energy, load_energy_table
        from npu_testbed.outcomes.differences import DiffOutcome, Energies

        if self.all and self.json:
            raise InputError("--all cannot be combined with --json, which has every layer: drop one of them.")
        first, second = sides(self)
        table = None if self.energy is None else load_energy_table(str(self.energy))
        before, after = _replayed(first, show), _replayed(second, show)
        energies = None if table is None else Energies(table.name, energy(before.replay, table), energy(after.replay, table))
        return DiffOutcome(before, after, energies, None if self.all else SHOWN)


_PAIRS = (
    "accelerator_config",
    "optimise",
    "arena_cache_size",
    "chip",
    "timing_adapter",
    "system_config",
    "memory_mode",
    "config",
    "timing",
)


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


def sides(ask: Diff) -> "tuple[SimulateVela, SimulateVela]":
    """The Ask of each side's replay; InputError if both are the same."""
    values = {name: pair(f"--{name.replace('_', '-')}", getattr(ask, name)) for name in _PAIRS}
    settings = [(key, pair(f"--set {key}", value)) for key, _, value in (text.partition("=") for text in ask.set)]
    first, second = (
        _side(source, ask, {name: value[number] for name, value in values.items()} | {"set": _set(settings, number)})
        for number, source in enumerate((ask.before, ask.before if ask.after is None else ask.after))
    )
    if first == second:
        raise InputError(f"Both sides are {ask.before!s} with the same options: give another file, or an option with two values.")
    return first, second


def _set(settings: "Sequence[tuple[str, tuple[str | None, str | None]]]", number: int) -> tuple[str, ...]:
    """The parameters of one side's memories, as ``--set`` has them."""
    return tuple(f"{key}={value[number] or ''}" for key, value in settings)


def _side(source: kinds.Source, ask: Diff, said: "dict[str, Any]") -> "SimulateVela":
    from npu_testbed.commands.simulate import SimulateVela

    size = _size(said["arena_cache_size"])
    return SimulateVela(model=source, input_shape=ask.input_shape, layout=ask.layout, **{**said, "arena_cache_size": size})


def _replayed(side: "SimulateVela", show: "Progress") -> "Simulation":
    """The replay of a side. A schedule keeps its recorded timing unless the Ask names another, such as the model's own."""
    from msgspec.structs import replace

    from npu_model.timing import DEFAULT_TIMING
    from npu_testbed.asked.replays import replay_of
    from npu_testbed.asked.request import shaped
    from npu_testbed.replays.simulation import simulate

    is_plain = side.timing == _MODELS_OWN
    request = replay_of(replace(side, timing=None) if is_plain else side, shaped(side.model, side), show)
    return simulate(replace(request, timing=DEFAULT_TIMING) if is_plain else request, progress=show)


_MODELS_OWN = "model"
"""The name of the model's own timing, which replaces a schedule's."""


def _size(text: "str | None") -> "int | None":
    try:
        return None if text is None else byte_count(text)
    except argparse.ArgumentTypeError as error:
        raise InputError(f"--arena-cache-size: {error}.") from None
