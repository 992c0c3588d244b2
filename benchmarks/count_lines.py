# ruff: noqa: INP001  # a script of its own, no package
"""The weight of each capability: modules and lines of code, without blank lines, comments and docstrings.

    python benchmarks/count_lines.py

A module counts for the first row whose patterns it matches, so that the rows sum to the five packages.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).parents[1]
PACKAGES = ("npu_model", "cascader", "sim", "validation", "npu_testbed")

CAPABILITIES: tuple[tuple[str, str], ...] = (
    ("Ethos-U85: commands, weights, traffic, its rules of time", "u85/* deep_*.py u85_rules.py"),
    ("Tensor Expressions as a source: operators, matchers, graphs", "frontends/te/* te_models.py te_task.py"),
    ("TensorIR: proof of a schedule, C for any processor", "tensorir/kernel*.py schedule_*.py c_source.py one_arena.py tensorir_proof.py"),
    ("TensorIR: plans of stripes for Tensor Expressions and your own device", "cascader/tensorir/* own_device.py device_plan.py"),
    ("Plans of stripes along any axes (`--stripes`)", "striped/* stripe_*.py propagators.py plan/proposals.py"),
    ("Tensors outside the arena that the search moves (`--spill`)", "ethosu/spill/*"),
    ("Forms of a network", "ethosu/forms/*"),
    ("Estimates of kernels and blocks", "ethosu/cost/*"),
    (
        "Search: plans, drafts, climbs, addresses",
        "cascader/draft/* cascader/plan/* cascader/allocate/* cascader/prefetch/* cascader/search/*",
    ),
    ("Search: limits, replays, frontier", "ethosu/search/* ethosu/judge/* ethosu/options.py ethosu/cascade.py verbs.py"),
    ("Independent check of a schedule", "ethosu/verify/*"),
    ("Networks, jobs, schedules and their Programs", "cascader/graph/* ethosu/* cascader/__init__.py"),
    ("Vela as a front end: compiling, reading back, mending", "cascader/frontends/* validation/vela/*"),
    ("Firmware on an emulated chip, registers of the NPU", "firmware/* sim/device/* programmer_registers.py commands/device.py"),
    ("Functional run, bit by bit", "sim/functional/*"),
    ("Hazards: orders that nothing guarantees", "sim/hazards/*"),
    ("Traces, timelines, layers of a replay", "sim/views/*"),
    ("Replay: engine and compiled recurrence", "sim/*"),
    (
        "Other files of compiled networks: C arrays, ExecuTorch, raw",
        "c_array.py containers.py executorch.py raw_npz.py deployed*.py payload_network.py",
    ),
    ("Export: .tflite, C, archive, raw", "npu_model/export/* exports.py commands/export.py"),
    ("Weight streams: coding, order, the decoder's work", "weight_stream/*"),
    ("Command streams of the Ethos-U55 and U65", "command_stream/*"),
    ("Reading and writing .tflite files", "npu_model/tflite/*"),
    ("Blocks, jobs and traffic, as replay and search count them", "npu_model/cost/*"),
    ("Compiled networks: reading, checks", "npu_model/compiled/*"),
    ("Programs, accelerators, memories, documents", "npu_model/*"),
    ("LiteRT as the judge of numerics", "validation/litert/*"),
    ("Live runs of an FVP", "fvp/live/* live_network.py"),
    ("Accuracy on published counters", "validation/fvp/* validate_fvp.py"),
    ("Counters of silicon", "validation/silicon/*"),
    ("Calibration of the timing model", "validation/calibrate/* calibrat*.py"),
    ("Drawn networks", "portfolio/drawn/*"),
    ("Networks that the package builds: portfolio, zoo, builder", "validation/portfolio/* validation/zoo/* validation/builder/*"),
    ("`validate portfolio`", "npu_testbed/portfolio/* validate_portfolio.py documents/portfolio.py"),
    (
        "`compile` in Vela's place, with Vela's reports",
        "npu_testbed/compilation/* commands/compilation.py in_place_of_vela.py several_compilations.py compilation*.py",
    ),
    ("`sweep`, with Dask", "sweeps/* sweep*.py axes.py"),
    ("`compare` and `validate vela`", "npu_testbed/comparisons/* compar*.py validate_networks.py"),
    ("`diff` and `check`", "npu_testbed/differences/* differences.py check.py diff.py"),
    ("Findings: what would make it faster or smaller", "npu_testbed/findings/* findings.py"),
    ("Measurements beside a replay (`--measured`)", "npu_testbed/measured/*"),
    ("CPU operators: times, reasons", "npu_testbed/cpu_time/* cpu_*.py"),
    ("Energies", "npu_testbed/energy/* energies.py"),
    ("Bytes and cycles in TFLite Micro, ExecuTorch, firmware", "npu_testbed/runtimes/*"),
    ("Inputs that arrive row by row (`--stream`)", "streaming.py stream.py"),
    ("Web pages (`--report`)", "npu_testbed/html/*"),
    ("Pictures: frontier, arena, sweep", "npu_testbed/views/*"),
    (
        "`verify` and the suite of all peers",
        "npu_testbed/proofs/* verify.py commands/validate.py documents/validation.py outcomes/validation.py",
    ),
    ("Frontier, costs of your own, what another search finds", "npu_testbed/searches/* frontier.py"),
    ("Networks of other shapes and orders of axes", "changed_models.py channels_last.py input_shapes.py layouts.py undefined.py"),
    ("Published schemas", "documents/published.py"),
    ("Options, parser and verbs", "npu_testbed/asked/*"),
    ("The other commands and their answers", "npu_testbed/commands/* npu_testbed/outcomes/* npu_testbed/reports/*"),
    ("JSON documents of the other commands", "npu_testbed/documents/*"),
    ("Devices and memories by their names", "npu_testbed/devices/*"),
    ("Sources, replays, files, endings", "npu_testbed/* validation/*"),
)
"""Each capability, and patterns of the ends of its modules' paths."""


def code_lines(text: str) -> int:
    """The lines of a module with code."""
    prose: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        body = getattr(node, "body", None)
        for one in body if isinstance(body, list) else ():
            if isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant) and isinstance(one.value.value, str):
                prose.update(range(one.lineno, (one.end_lineno or one.lineno) + 1))
    lines = enumerate(text.splitlines(), 1)
    return sum(bool(line.strip()) and not line.lstrip().startswith("#") and number not in prose for number, line in lines)


def capability(path: PurePosixPath) -> str:
    """The capability of a module; ValueError if it has none."""
    for name, patterns in CAPABILITIES:
        if any(_matches(path, pattern) for pattern in patterns.split()):
            return name
    raise ValueError(f"{path} belongs to no capability: add it to one.")


def _matches(path: PurePosixPath, pattern: str) -> bool:
    """Whether a path, or one of the folders above it for a pattern ``FOLDER/*``, ends as a pattern says."""
    return any(one.match(pattern) for one in (path, *path.parents))


def weights() -> Iterator[tuple[str, int, int]]:
    """Each capability with its modules and lines, the heaviest first."""
    found: dict[str, list[int]] = {name: [] for name, _ in CAPABILITIES}
    for package in PACKAGES:
        for file in sorted((ROOT / package).rglob("*.py")):
            found[capability(PurePosixPath(file.relative_to(ROOT).as_posix()))].append(code_lines(file.read_text(encoding="utf-8")))
    yield from sorted(((name, len(lines), sum(lines)) for name, lines in found.items()), key=lambda row: -row[2])


def main() -> None:
    """Print the table."""
    rows = list(weights())
    rows.append(("together", sum(row[1] for row in rows), sum(row[2] for row in rows)))
    table = [f"| {name} | {modules:,} | {lines:,} |" for name, modules, lines in rows]
    print("\n".join(["| capability | modules | lines |", "| --- | --: | --: |", *table]))  # noqa: T201  # what the script is for


if __name__ == "__main__":
    main()
