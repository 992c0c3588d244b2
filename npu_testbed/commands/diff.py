"""``npu-testbed diff``: two schedules of a network, or two configurations, and what moved between them."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from npu_model.errors import InputError
from npu_testbed.commands.options import (
    Parser,
    add_energy_option,
    add_input_shape_option,
    add_json_option,
    add_vela_timeout_option,
    example,
)
from npu_testbed.commands.printing import Printed

if TYPE_CHECKING:
    from npu_model.timing import TimingParameters
    from npu_testbed.differences.sides import Side
    from npu_testbed.documents import Document
    from npu_testbed.outcomes import Outcome
    from npu_testbed.progress import Progress


def add(commands: Any) -> None:
    """Add the command's parser."""
    parser: Parser = commands.add_parser(
        "diff",
        help="say what moved between two schedules or configurations, layer by layer",
        description=(
            "Replay two schedules and say what is different: cycles, SRAM and traffic of the whole, and of each layer its cycles, "
            "kernels, blocks, layouts, copies and what binds it, the largest difference first. A side is a schedule file, a "
            "*_vela.tflite, or a network, which Vela compiles. An option with two values and a comma between them is for one side each."
        ),
        epilog=example(
            "npu-testbed diff before.json after.json",
            "npu-testbed diff zoo:ds_cnn --optimise Size,Performance",
            "npu-testbed diff network_vela.tflite --timing-adapter u55_high_end,off",
        ),
    )
    file = "a schedule file, a *_vela.tflite, a .pte, a C array, a .tflite to compile, zoo:NAME or portfolio:NAME"
    parser.add_argument("before", metavar="BEFORE", help=file)
    parser.add_argument("after", metavar="AFTER", nargs="?", help="another one (default: BEFORE, with other options)")
    parser.add_argument("--all", action="store_true", help="show every layer that is different")
    add_energy_option(parser, "also the ratio of the energy after to that before")
    group = parser.add_argument_group("compilation", "For networks that are not compiled yet.")
    group.add_argument("--accelerator-config", metavar="NAME[,NAME]", help="accelerator (default: ethos-u55-128)")
    group.add_argument("--optimise", metavar="STRATEGY[,STRATEGY]", help="Performance or Size (default: Performance)")
    group.add_argument("--arena-cache-size", metavar="BYTES[,BYTES]", help="Vela's bound for the arena (default: Vela's own)")
    add_input_shape_option(group)
    add_vela_timeout_option(group)
    memory = parser.add_argument_group(
        "memory system", "Of a schedule by default the one that it was made for, else the timing adapter u55_high_end."
    )
    memory.add_argument("--timing-adapter", metavar="NAME[,NAME]", help="timing-adapter profiles: u55_high_end, off, or .toml files")
    memory.add_argument("--system-config", metavar="NAME[,NAME]", help="system configs of Vela's configuration")
    memory.add_argument("--memory-mode", metavar="NAME[,NAME]", help="memory modes of Vela's configuration")
    memory.add_argument("--config", metavar="INI[,INI]", help="configuration files to read these from (default: the vela.ini of Vela)")
    default = "of a schedule that which it was made for, else the model's own"
    parser.add_argument(
        "--timing",
        metavar="PROFILE[,PROFILE]",
        help=f"timing parameters of the NPU, as `calibrate fit` writes them, or `model` for the model's own (default: {default})",
    )
    add_json_option(parser)
    parser.set_defaults(run=Printed(answer))


def sides(arguments: argparse.Namespace) -> tuple[Side, Side]:
    """Both sides with their options; InputError if they are one and the same."""
    from npu_testbed.commands.options import byte_count
    from npu_testbed.differences.sides import Side, pair
    from npu_testbed.memory_options import MemoryOptions
    from npu_testbed.simulation import VelaOptions

    def both(name: str) -> tuple[str | None, str | None]:
        return pair(f"--{name.replace('_', '-')}", getattr(arguments, name))

    def size(text: str | None) -> int | None:
        try:
            return None if text is None else byte_count(text)
        except argparse.ArgumentTypeError as error:
            raise InputError(f"--arena-cache-size: {error}.") from None

    names = ("accelerator_config", "optimise", "arena_cache_size", "timing_adapter", "system_config", "memory_mode", "config", "timing")
    values = [both(name) for name in names]
    found = []
    for number, source in enumerate((arguments.before, arguments.after or arguments.before)):
        accelerator, optimise, budget, adapter, system, mode, config, timing = (value[number] for value in values)
        memory = MemoryOptions(adapter, system, mode, None if config is None else Path(config))
        found.append(Side(source, VelaOptions(accelerator, optimise, size(budget)), memory, _timing(timing)))
    if found[0] == found[1]:
        raise InputError(f"Both sides are {arguments.before} with the same options: give another file, or an option with two values.")
    return found[0], found[1]


def _timing(profile: str | None) -> TimingParameters | None:
    """Timing parameters of a profile; those of the model under its name; None if none are asked for."""
    from npu_testbed.timing import load_timing

    return None if profile is None else load_timing(None if profile == "model" else profile)


def answer(arguments: argparse.Namespace, show: Progress) -> Outcome:
    """Replay both sides."""
    from msgspec import UNSET

    from npu_testbed.differences.difference_tables import SHOWN, diff_json, diff_text
    from npu_testbed.differences.sides import replay_side
    from npu_testbed.energy import energy, energy_json, energy_text, load_energy_table
    from npu_testbed.outcomes import PlainOutcome

    if arguments.all and arguments.json:
        raise InputError("--all was given together with --json, which has every layer: drop one of them.")
    first, second = sides(arguments)
    table = None if arguments.energy is None else load_energy_table(arguments.energy)
    before, after = replay_side(first, show), replay_side(second, show)
    energies = None if table is None else (table.name, energy(before.replay, table), energy(after.replay, table))

    def document() -> Document:
        return diff_json(before, after, UNSET if energies is None else energy_json(*energies))

    def text() -> str:
        sections = [diff_text(before, after, None if arguments.all else SHOWN)]
        return "\n\n".join(sections if energies is None else [*sections, energy_text(*energies)])

    return PlainOutcome("diff", (before, after), document, text)
