"""Vela's options that have no meaning here: those that are noted, and those that would change the file and are refused."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from npu_model.errors import InputError

_INSPECT = "`npu-testbed inspect` prints the compiled file's operations"
_LAYERS = "the per-layer CSV and `npu-testbed simulate vela` say what each layer takes"
_ONE_STAGE = "it is not a stage of this compilation"
_NOT_ON_U55 = "the Ethos-U55 and Ethos-U65 have no such hardware, so that Vela's files for them do not change"
_NO_SWITCH = "the cascader has no such switch"


class VelaOption(NamedTuple):  # These are not Structs: --help makes them, and it answers before msgspec would be imported.
    """An option of Vela: whether it takes a value, why it has no meaning here, and the value that changes nothing, if any.

    A ``refused`` option with another value than ``harmless`` is refused; other uses are noted. Vela answers an option that is ``alone``
    without a MODEL, so it is refused without one, too.
    """

    name: str
    reason: str
    takes_value: bool = False
    refused: bool = False
    harmless: str = ""
    alone: bool = False

    @property
    def key(self) -> str:
        """Name of the option's value among the parsed arguments, apart from our own options."""
        return f"vela_{self.name.removeprefix('--').replace('-', '_')}"

    def refusal(self, given: str) -> InputError:
        """The error for the option in the user's spelling."""
        remedy = f"leave it out, or give {self.harmless}" if self.harmless else "leave it out, or compile with Vela"
        return InputError(f"{given} is an option of Vela's that has no meaning here ({self.reason}): {remedy}.")


VELA_OPTIONS = (
    VelaOption("--tensor-allocator", "the schedule itself gives every buffer its address", takes_value=True),
    VelaOption(
        "--max-block-dependency", "BLOCKDEP is the largest that is safe for each operation", takes_value=True, refused=True, harmless="3"
    ),
    VelaOption("--recursion-limit", "nothing here recurses without a bound", takes_value=True),
    VelaOption("--hillclimb-max-iterations", "Vela's allocator places nothing here", takes_value=True),
    VelaOption("--timing", "a terminal is shown the time while it passes; --timing-profile is for timing parameters"),
    VelaOption("--verbose-all", f"{_INSPECT}, {_LAYERS}"),
    VelaOption("--verbose-config", "`npu-testbed --list-configs` names the configurations"),
    VelaOption("--verbose-graph", _ONE_STAGE),
    VelaOption("--verbose-quantization", _ONE_STAGE),
    VelaOption("--verbose-packing", _ONE_STAGE),
    VelaOption("--verbose-tensor-purpose", _ONE_STAGE),
    VelaOption("--verbose-tensor-format", _INSPECT),
    VelaOption("--verbose-schedule", f"--enable-debug-db writes the schedule, {_INSPECT}"),
    VelaOption("--verbose-allocation", "`npu-testbed simulate vela FILE --sram-map M.svg` draws the arena"),
    VelaOption("--verbose-high-level-command-stream", _INSPECT),
    VelaOption("--verbose-register-command-stream", _INSPECT),
    VelaOption("--verbose-operators", _ONE_STAGE),
    VelaOption("--verbose-weights", "the summary CSV has the bytes of weights before and after"),
    VelaOption("--verbose-progress", "a terminal is shown the progress"),
    VelaOption("--show-subgraph-io-summary", _INSPECT),
    VelaOption("--disable-chaining", _NOT_ON_U55),
    VelaOption("--disable-fwd", _NOT_ON_U55),
    VelaOption("--force-symmetric-int-weights", "it changes no byte of Vela's files for an Ethos-U55 or Ethos-U65"),
    VelaOption("--debug-force-regor", "it is asked first to legalise the network anyway"),
    VelaOption(
        "--cop-format", "the driver payload is written as COP1, by `export` as COP2 too", takes_value=True, refused=True, harmless="COP1"
    ),
    VelaOption(
        "--separate-io-regions",
        "inputs and outputs lie in the one arena, where `schedule --home` and `export` do not put them",
        refused=True,
    ),
    VelaOption("--experimental-softmax-int16-neg-exp-range", "the file would compute other values", takes_value=True, refused=True),
    VelaOption("--disable-buffering", _NO_SWITCH, refused=True),
    VelaOption("--disable-ifm-reuse", _NO_SWITCH, refused=True),
    VelaOption("--api-version", "Vela's external API takes no part; `npu-testbed --version` says ours", refused=True, alone=True),
)
"""Vela 5.2.0's options that `npu-testbed compile` has no use for."""


_BY_NAME = {option.name: option for option in VELA_OPTIONS}


class _Alone(argparse.Action):
    """Refuses its option while it is read, before a missing MODEL is reported."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(nargs=0, **settings)

    def __call__(self, *_: Any) -> None:
        """Raise the option's refusal."""
        raise _BY_NAME[self.option_strings[0]].refusal(self.option_strings[0])


def add_vela_options(parser: argparse.ArgumentParser) -> None:
    """Let a command line take Vela's options; the help shows them together."""
    names = ", ".join(option.name for option in VELA_OPTIONS)
    group = parser.add_argument_group("Vela's options without a meaning here", f"Noted, or refused if the file would be another: {names}.")
    for option in VELA_OPTIONS:
        if option.takes_value:
            group.add_argument(option.name, dest=option.key, metavar="X", help=argparse.SUPPRESS)
        else:
            group.add_argument(
                option.name, dest=option.key, action=_Alone if option.alone else "store_true", default=None, help=argparse.SUPPRESS
            )


def notes(said: Mapping[str, Any]) -> Iterator[str]:
    """A sentence for each given option that changes nothing; InputError for the first that would change something."""
    for option in VELA_OPTIONS:
        value = said.get(option.key)
        if value is None or (option.harmless and value == option.harmless):
            continue
        given = f"{option.name} {value}" if option.takes_value else option.name
        if option.refused:
            raise option.refusal(given)
        yield f"{given} changes nothing here: {option.reason}."
