"""``npu-testbed validate vela`` and ``litert``: networks, compiled by Vela and compared with a peer."""

# No `from __future__ import annotations`: fields of Asks are read as values.
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from npu_model.errors import InputError
from npu_testbed.asked import kinds
from npu_testbed.asked.ask import OfModels, OnMemory
from npu_testbed.asked.option import Option, given, leave_out

if TYPE_CHECKING:
    from npu_testbed.asked.request import ChangesModels
    from npu_testbed.ground.progress import Progress
    from npu_testbed.outcomes.validation import LitertOutcome, ValidateVelaOutcome

ALL, BOTH = "all", "both"

MANY = "a .tflite, zoo:NAME or portfolio:NAME (default: every network of the zoo)"
Models = Annotated[kinds.Source | Sequence[kinds.Source], Option(MANY, "MODEL", source=True, many=True)]
Devices = Annotated[
    str | Sequence[str], Option("accelerator, or all of a U55; may be repeated (default: ethos-u55-128)", "NAME", many=True)
]
Strategies = Annotated[Literal["Performance", "Size", "both"], Option("Vela's strategy (default: both)")]


def model_sources(models: object, ask: "ChangesModels") -> tuple[str, ...]:
    """The named models, or all of the zoo."""
    from npu_testbed.asked.request import shaped
    from npu_testbed.proofs.peers import zoo_models

    return tuple(shaped(one, ask) for one in kinds.texts(models)) or zoo_models()


def devices(names: object) -> tuple[str, ...]:
    """The named accelerators, each once; the default without any."""
    from npu_model.accelerator import DEFAULT_ACCELERATOR, accelerator_names

    named = kinds.texts(names)
    if not named:
        return (DEFAULT_ACCELERATOR,)
    return accelerator_names("u55") if ALL in named else tuple(dict.fromkeys(named))


def _choices(ask: "ValidateVela | ValidateLitert") -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """Models, accelerators and strategies."""
    from validation.vela.replays import OPTIMISE

    strategy = ask.optimise
    strategies = OPTIMISE if strategy == BOTH else (strategy,)
    return model_sources(ask.models, ask), devices(ask.accelerator_config), strategies


class ValidateVelaOptions(OnMemory["ValidateVelaOutcome"], frozen=True, kw_only=True):
    """The options of ``validate vela``."""

    accelerator_config: Devices = ()
    optimise: Strategies = "both"
    compare: Annotated[bool, Option("compare our own schedules with Vela's, as npu-testbed compare does (minutes a network)")] = False
    results: kinds.Results = None


_COMPARED = (
    *("chip", "timing_adapter", "system_config", "memory_mode", "config", "set", "timing", "jobs", "results"),
    *("home", "spill", "keep", "recompute", "no_recompute", "ignore_ops", "effort", "deadline"),
)
"""Options that apply only to comparisons."""


class ValidateVela(ValidateVelaOptions, frozen=True):
    """Compare the SRAM and cycles of Vela's schedules with Vela's own figures, and ours with Vela's.

    Vela compiles the networks for its default memory system. Its schedules are replayed. The SRAM that they touch is compared with Vela's
    own figure, and their cycles with Vela's estimate.
    With --compare, our own schedules are compared with Vela's, too. The answer has a row per network, and a row for each of eight arena
    sizes. It lists every schedule of Vela's that ours does not match in bytes and cycles. The options of the search and of the memory
    system apply only with --compare.

    Status 1 if a difference in SRAM has no explanation, or if with --compare
    - ours needs more bytes than Vela Size at its cycles, or is more than 1 % slower in Vela Performance's bytes,
    - at an arena size that Vela fits ours is more than 1 % slower, or
    - a network fails, which is reported with the others' results.
    """

    examples: ClassVar[tuple[str, ...]] = (
        "npu-testbed validate vela zoo:ds_cnn --optimise Size",
        "npu-testbed validate vela network.tflite --json",
        "npu-testbed validate vela network.tflite --compare --accelerator-config all --system-config Ethos_U55_Deep_Embedded",
    )

    models: Models = ()

    def answer(self, show: "Progress") -> "ValidateVelaOutcome":
        """Make the scores, and the comparisons if requested; status 1 if a score is unexplained or a comparison misses a bar."""
        if not self.compare and (said := given(self, _COMPARED)):
            raise InputError(f"{' and '.join(said)} can only be given together with --compare: add it, or {leave_out(said)}.")
        from npu_testbed.asked.request import requests_of, run_of
        from npu_testbed.comparisons.beside_vela import BesideVela, beside_vela
        from npu_testbed.devices.memory_options import names_memory
        from npu_testbed.outcomes.validation import ValidateVelaOutcome
        from npu_testbed.proofs.peers import validate_vela

        models, names, strategies = _choices(self)
        if not self.compare:
            return ValidateVelaOutcome(BesideVela(validate_vela(models, names, strategies, show)))
        results = None if self.results is None else Path(self.results)
        result = beside_vela(models, requests_of(self, models, names, show), strategies, run_of(self, show), results)
        notes = ("This table is of Vela's default system config and memory mode.",) if names_memory(self) else ()
        return ValidateVelaOutcome(result, notes)


class ValidateLitertOptions(OfModels["LitertOutcome"], frozen=True, kw_only=True):
    """The options of ``validate litert``."""

    accelerator_config: Devices = ()
    optimise: Strategies = "both"


class ValidateLitert(ValidateLitertOptions, frozen=True):
    """Run Vela's schedules bit by bit on seeded random inputs and compare the outputs with LiteRT's reference kernels.

    Networks are compiled with Vela. The extra 'numerics' is needed. Status 1 if a difference has no explanation.
    """

    examples: ClassVar[tuple[str, ...]] = (
        "npu-testbed validate litert zoo:ds_cnn --optimise Size",
        "npu-testbed validate litert network.tflite --json",
    )

    models: Models = ()

    def answer(self, show: "Progress") -> "LitertOutcome":
        """Count the differing bytes; status 1 if they are unexplained."""
        from npu_testbed.outcomes.validation import LitertOutcome
        from npu_testbed.proofs.peers import validate_litert

        return LitertOutcome(validate_litert(*_choices(self), show))
