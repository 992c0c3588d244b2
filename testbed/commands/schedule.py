"""``npu-testbed schedule``: a model to a schedule file."""

from __future__ import annotations

import argparse
from typing import Any

from testbed.commands.options import (
    Parser,
    add_accelerator_option,
    add_json_option,
    add_memory_options,
    byte_count,
    example,
    print_json,
)


def add(commands: Any) -> None:
    """Add the command's parser."""
    parser: Parser = commands.add_parser(
        "schedule",
        help="schedule a network and write the schedule file",
        description="Schedule a quantised network layer by layer and write a self-contained schedule file.",
        epilog=example("npu-testbed schedule zoo:mobilenet_v1 --arena-cache-size 2000000 -o mobilenet_v1.json"),
    )
    parser.add_argument("model", metavar="MODEL", help="a .tflite file, or zoo:NAME for a network that the package builds")
    parser.add_argument("-o", "--output", metavar="SCHEDULE.json", required=True, help="schedule file to write")
    add_accelerator_option(parser, "ethos-u55-128")
    parser.add_argument(
        "--arena-cache-size", metavar="BYTES", type=byte_count, help="most bytes that the arena may take (default: no bound)"
    )
    add_memory_options(parser, "the timing adapter u55_high_end; `simulate schedule` replays on what is given here")
    add_json_option(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Make the schedule, write it, and say what was written."""
    from testbed.commands.choices import memory_options
    from testbed.files import require_writable
    from testbed.pipeline import schedule, write_schedule
    from testbed.progress import progress

    require_writable(arguments.output, arguments.model)
    with progress() as show:
        plan = schedule(
            arguments.model,
            arguments.accelerator_config,
            arena_cache_size=arguments.arena_cache_size,
            memory=memory_options(arguments),
            progress=show,
        )
        show(f"Writing {arguments.output}")
        write_schedule(plan, arguments.output)
    facts = {
        "model": plan.provenance.model,
        "accelerator": plan.accelerator,
        "memory_system": plan.provenance.memory_system,
        "parts": len(plan.jobs),
        "arena_bytes": plan.arena_size,
        "output": arguments.output,
        "tools": dict(plan.provenance.tools),
    }
    if arguments.json:
        print_json("schedule", facts)
    else:
        print(
            f"{arguments.output}: {plan.provenance.model} for {plan.accelerator}, "
            f"{len(plan.jobs)} parts layer by layer in an arena of {plan.arena_size:,} bytes"
        )
    return 0
