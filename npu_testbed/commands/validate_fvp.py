"""``npu-testbed validate fvp``: the counters of Arm's FVPs, as others published them or from an installed FVP."""

# No `from __future__ import annotations`: fields of Asks are read as values.
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from npu_testbed.asked import kinds
from npu_testbed.asked.ask import OfModels
from npu_testbed.asked.option import Group, Option, given, leave_out
from npu_testbed.asked.readers import number

if TYPE_CHECKING:
    from npu_model.memory.system import MemorySystem
    from npu_testbed.ground.progress import Progress
    from npu_testbed.outcomes.validation import FvpLiveOutcome, FvpOutcome
    from validation.fvp.live.runner import FvpOptions

DEFAULT_OPTIMISE = "Performance"
"""Vela's default."""

_COMPILATION = ("optimise", "system_config", "memory_mode")
_LIVE = (
    "vela_timeout",
    *("model", "fvp", "firmware", "model_address", "no_trace", "fvp_argument", "event", "timeout"),
    *("accelerator_config", "timing_adapter", *_COMPILATION),
)
"""Options that only a live comparison reads."""

_BUILT_IN = "none"
"""``--model-address`` of firmware that has the network built in."""

LIVE = Group("live comparison")


def _address(text: str) -> int | str:
    if text == _BUILT_IN:
        return text
    what = f"an address from 0 to 0xffffffff; give one such as 0x90000000, or {_BUILT_IN}"
    return number(partial(int, base=0), text, 0, (1 << 32) - 1, what)


def _seconds(text: str) -> float:
    return number(float, text, 1, 86400, "a number of seconds from 1 to 86400")


class ValidateFvpOptions(OfModels["FvpOutcome | FvpLiveOutcome"], frozen=True, kw_only=True):
    """The options of ``validate fvp``."""

    timing: kinds.Timing = None
    live: Annotated[bool, Option("run MODEL on an installed FVP", group=LIVE)] = False
    fvp: Annotated[kinds.PathText | None, Option("the FVP's binary (default: the one in PATH)", "FILE", Path, LIVE)] = None
    firmware: Annotated[
        kinds.PathText | None, Option("the .axf to run (default: the runner of the package mlia-ethos-u)", "FILE", Path, LIVE)
    ] = None
    model_address: Annotated[
        int | str | None,
        Option(
            f"where the firmware expects the compiled network, or {_BUILT_IN} if it is built in (default: 0x90000000)",
            "ADDRESS",
            _address,
            LIVE,
        ),
    ] = None
    no_trace: Annotated[bool, Option("ask for no PMU trace: counters alone, no operations", group=LIVE)] = False
    fvp_argument: Annotated[
        str | Sequence[str], Option("a further argument for the FVP; may be repeated", "TEXT", group=LIVE, many=True)
    ] = ()
    event: Annotated[
        str | Sequence[str],
        Option("PMU event of the firmware's next numbered counter, from 0 on; may be repeated", "NAME", group=LIVE, many=True),
    ] = ()
    timeout: Annotated[float | None, Option("time limit of the run (default: 900)", "SECONDS", _seconds, LIVE)] = None
    timing_adapter: Annotated[
        kinds.PathText | None,
        Option("what the firmware programs into the timing adapters (default: off, as ready runners)", "NAME|FILE", group=LIVE),
    ] = None
    accelerator_config: Annotated[
        str | None, Option("accelerator, such as ethos-u55-128 (default: the schedule's, or ethos-u55-128)", "NAME", group=LIVE)
    ] = None
    optimise: Annotated[Literal["Performance", "Size"] | None, Option("Vela's strategy (default: Performance)", group=LIVE)] = None
    system_config: Annotated[str | None, Option("Vela's system config (default: Ethos_U55_High_End_Embedded)", "NAME", group=LIVE)] = None
    memory_mode: Annotated[str | None, Option("Vela's memory mode (default: Shared_Sram)", "NAME", group=LIVE)] = None


class ValidateFvp(ValidateFvpOptions, frozen=True):
    """Compare cycles and data beats with the counters of the Corstone FVPs.

    Replay command streams that were measured on the Corstone-300 and Corstone-310 FVPs. Matching the FVP is matching Arm's simulator, not
    silicon. Status 1 if a bar is missed that is not a known miss. With --live, a network runs on an installed Corstone-300 FVP instead. Its
    counters are compared, and every operation of its PMU trace. No bar applies there.
    """

    examples: ClassVar[tuple[str, ...]] = (
        "npu-testbed validate fvp --json",
        "npu-testbed validate fvp --live network.tflite --fvp FVP_Corstone_SSE-300_Ethos-U55 --firmware runner.axf",
    )

    model: Annotated[
        kinds.Source | None,
        Option("a schedule file, a *_vela.tflite, a .tflite to compile, zoo:NAME or portfolio:NAME", "MODEL", group=LIVE, source=True),
    ] = None

    def answer(self, show: "Progress") -> "FvpOutcome | FvpLiveOutcome":
        """Make the scorecard, or the live comparison; status 1 if the scorecard misses a bar."""
        if self.live:
            return _live(self, show)
        _require_none(self)
        from npu_testbed.devices.timing import load_timing
        from npu_testbed.outcomes.validation import FvpOutcome
        from validation.fvp.scorecard import scorecard

        timing = load_timing(None if self.timing is None else str(self.timing))
        return FvpOutcome(scorecard(lambda done, total: show(f"Replaying: {done} of {total}"), timing), timing)


def _require_none(ask: "ValidateFvp") -> None:
    """InputError for any option, because the recorded points take none and would ignore it."""
    from npu_model.errors import InputError

    if said := given(ask, _LIVE):
        raise InputError(f"{' and '.join(said)} can only be given together with --live: add it, or {leave_out(said)}.")


def _options(ask: "ValidateFvp") -> "FvpOptions":
    from validation.fvp.live.runner import MODEL_ADDRESS, TIMEOUT_SECONDS, FvpOptions

    address = MODEL_ADDRESS if ask.model_address is None else ask.model_address
    return FvpOptions(
        binary=None if ask.fvp is None else Path(ask.fvp),
        firmware=None if ask.firmware is None else Path(ask.firmware),
        model_address=None if address == _BUILT_IN else int(address),
        trace=not ask.no_trace,
        arguments=tuple(ask.fvp_argument or ()),
        events=tuple(ask.event or ()),
        timeout=TIMEOUT_SECONDS if ask.timeout is None else ask.timeout,
    )


def _require_no_compilation(ask: "ValidateFvp", model: bytes) -> None:
    """InputError for options of the compilation, because a compiled network would ignore them."""
    from npu_model.compiled.network import is_compiled
    from npu_model.errors import InputError
    from npu_model.tflite.model import read_tflite

    said = given(ask, _COMPILATION)
    if said and is_compiled(read_tflite(model)):
        raise InputError(f"{ask.model!s} is compiled already, so that {' and '.join(said)} cannot change it: {leave_out(said)}.")


def _system(ask: "ValidateFvp") -> "MemorySystem | None":
    from npu_testbed.devices.configs import load_timing_adapter

    return None if ask.timing_adapter is None else load_timing_adapter(str(ask.timing_adapter))


def _live(ask: "ValidateFvp", show: "Progress") -> "FvpLiveOutcome":
    from npu_model.accelerator import require_use
    from npu_model.errors import InputError
    from npu_model.memory.vela_names import DEFAULT_MEMORY_MODE
    from npu_testbed.asked.request import shaped
    from npu_testbed.devices.timing import load_timing
    from npu_testbed.outcomes.validation import FvpLiveOutcome
    from npu_testbed.replays.live_network import live_network
    from validation.fvp.live.live import validate_live

    if ask.model is None:
        raise InputError("--live runs 1 network on the FVP and 0 were named: give a schedule file, a .tflite or zoo:NAME.")
    source = shaped(ask.model, ask)
    show(f"Reading {source}")
    model = live_network(source)
    timing = model.timing if ask.timing is None else load_timing(str(ask.timing))
    device = ask.accelerator_config or model.accelerator
    require_use(device, "replay")
    _require_no_compilation(ask, model.data)
    show(f"Running {model.name} on the FVP")
    result = validate_live(
        model.data,
        device,
        _options(ask),
        optimise=ask.optimise or DEFAULT_OPTIMISE,
        system_config=ask.system_config or "",
        memory_mode=ask.memory_mode or DEFAULT_MEMORY_MODE,
        system=_system(ask),
        timing=timing,
    )
    return FvpLiveOutcome(result, timing)
