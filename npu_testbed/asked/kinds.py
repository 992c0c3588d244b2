"""Kinds of options that several Asks have: a field of one of these types is an option with its help, unit and reader."""

# No `from __future__ import annotations`: fields of Asks are read as values.
from collections.abc import Mapping, Sequence
from fractions import Fraction
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Protocol

from npu_testbed.asked.option import Group, Option
from npu_testbed.asked.readers import byte_count, input_shape, layout, milliseconds, per_cent, percentage, positive_count, seconds, times

if TYPE_CHECKING:
    from typing import TypeAlias

    from cascader.ethosu.job.schedule import Schedule
    from cascader.frontends.te.graph import Graph

    class Scheduled(Protocol):
        """An outcome that has a schedule, such as the outcome of ``schedule``."""

        @property
        def schedule(self) -> Schedule:
            """The schedule, once it was found."""

    Source: TypeAlias = str | PathLike[str] | bytes | Schedule | Scheduled | Graph
else:
    Source = Any
"""A path, ``zoo:NAME``, ``portfolio:NAME`` or ``GRAPH.py:FUNCTION``; in Python also the bytes of a model, a schedule or a graph."""


def texts(values: object) -> tuple[str, ...]:
    """The words of several sources, or of one."""
    return (str(values),) if isinstance(values, (str, PathLike)) or not isinstance(values, Sequence) else tuple(map(str, values))


PathText = str | PathLike[str]
"""A path."""

MODEL = "a .tflite file, or zoo:NAME or portfolio:NAME for a network that the package builds"
GRAPH = f"{MODEL}, or GRAPH.py:FUNCTION for Tensor Expressions (extra 'tensorir'): that file is your own code, and it is run"
ANY_FILE = (
    "a schedule file, a *_vela.tflite, a .pte, a C array, a C source or raw .npz with driver payloads, a .tflite to compile, zoo:NAME or "
    "portfolio:NAME"
)

MEMORY = Group("memory system", "Either a timing adapter or Vela's configuration.")
COMPILATION = Group("compilation", "For a network that is not compiled yet.")
LAYERS = Group("layers")
REPORTS = Group("reports")

Accelerator = Annotated[
    str | None,
    Option(
        "ethos-u55-32, ethos-u55-64, ethos-u55-128, ethos-u55-256, ethos-u65-256 or ethos-u65-512 "
        "(default: ethos-u55-128; Vela's own default is ethos-u55-256)",
        "NAME",
    ),
]
Budget = Annotated[
    int | str | None,
    Option("limit of the arena in bytes, such as 262144 or 256KiB (default: the limit of the memory mode)", "BYTES", byte_count),
]
Optimise = Annotated[Literal["Performance", "Size"] | None, Option("what to optimise for within the limit (default: Performance)")]
Effort = Annotated[
    Literal["quick", "standard", "thorough"] | None,
    Option(
        "how hard to search (default: standard): quick tries few changes, standard searches near the limit. thorough searches every "
        "memory limit of a frontier, which takes several times longer, and tries all schedules of networks with at most ten parts"
    ),
]
Homes = Annotated[
    str | Sequence[str] | Mapping[str, str],
    Option(
        "let a tensor live outside the arena (repeatable; default: all in the arena). The memory is a name of the memory system, or "
        "axi0 or axi1: input=ext puts all inputs there, output=ext all outputs, NAME=ext one tensor. A TOML file may hold such lines",
        "WHAT=MEMORY",
        many=True,
    ),
]
Spill = Annotated[
    str | None,
    Option(
        "let the search move tensors between layers to this memory, such as ext or axi1. The DMA brings them through the arena "
        "(default: tensors stay in the arena; in Dedicated_Sram they may move to the outer arena)",
        "MEMORY",
    ),
]
Keep = Annotated[
    Literal["input"] | None,
    Option("keep every input until a run ends, so that no output lies over it (default: what is read may be written over)"),
]
Recompute = Annotated[
    Fraction | float | str | None,
    Option(
        "limit of multiply-accumulates, recomputed ones included, as a multiple of the network's (default: 1.1); every answer says how "
        "many it recomputes",
        "MACS",
        times,
    ),
]
NoRecompute = Annotated[bool, Option("recompute nothing")]
IgnoreOps = Annotated[str | Sequence[str], Option("TFLite builtin operators to leave on the CPU (repeatable)", "OP[,OP...]", many=True)]
Within = Annotated[
    Fraction | float | str | None,
    Option("take the smallest arena that costs at most this many per cent of the fastest schedule's cycles (default: 0)", "P", per_cent),
]
Deadline = Annotated[
    float | str | None, Option("also say which schedule meets this time per inference in milliseconds", "MS", milliseconds)
]
Timing = Annotated[
    PathText | None, Option("timing parameters of the NPU, as `calibrate fit` writes them (default: the model's own)", "PROFILE.toml")
]
Jobs = Annotated[
    int | None,
    Option("processes that share the search (default: the processors); the result is the same", "N", positive_count),
]
InputShapes = Annotated[
    str | Sequence[str] | Mapping[str, str],
    Option(
        "shape of an input, in place of the model's; may be repeated, and needs the extra numerics (default: the model's own)",
        "[NAME=]1,224,224,3",
        input_shape,
        many=True,
    ),
]
Layouts = Annotated[
    str | Sequence[str] | Mapping[str, str],
    Option(
        "drop the TRANSPOSE of an input or output: it is NHWC then, and NCHW in the model (repeatable; default: the model's order). "
        "input=NHWC stands for all inputs, output=NHWC for all outputs",
        "NAME=NHWC",
        layout,
        many=True,
    ),
]
VelaTimeout = Annotated[float | None, Option("limit per compilation with Vela in seconds (default: 120)", "SECONDS", seconds)]
Chip = Annotated[
    PathText | None,
    Option(
        "accelerator and memory system of a chip of `npu-testbed --list-chips`, or of a .toml, .pdsc or .cdef file; other options override "
        "it",
        "NAME|FILE",
        group=MEMORY,
    ),
]
TimingAdapter = Annotated[
    PathText | None,
    Option(
        "timing-adapter profile, or a .toml file (default: the high end of the family, or the profile of the schedule). Profiles are "
        "u55_high_end and off; for a U65 u65_high_end and u65_off; for a U85 u85_sys_dram_low, u85_sys_dram_mid and u85_sys_dram_high",
        "NAME|FILE",
        group=MEMORY,
    ),
]
SystemConfig = Annotated[
    str | None,
    Option("system config of Vela's configuration (its default: Ethos_U55_High_End_Embedded)", "NAME", group=MEMORY),
]
MemoryMode = Annotated[str | None, Option("memory mode of Vela's configuration (its default: Shared_Sram)", "NAME", group=MEMORY)]
Config = Annotated[
    PathText | None, Option("configuration file to read these from (default: the vela.ini of Vela)", "INI", Path, group=MEMORY)
]
Settings = Annotated[
    str | Sequence[str] | Mapping[str, "str | int"],
    Option(
        "what if: a parameter of a memory, such as OffChipFlash.read_latency=64, or clock_hz; may be given several times",
        "MEMORY.PARAMETER=VALUE",
        group=MEMORY,
        many=True,
    ),
]
Csv = Annotated[
    PathText | None, Option("write all rows of the per-layer table as comma-separated values", "T.csv", group=LAYERS, writes="file")
]
MinPercent = Annotated[
    float | str | None, Option("fold layers below this part of the cycles into one row (default: 1)", "P", percentage, LAYERS)
]
NoAdvice = Annotated[bool, Option("do not look for what would make the schedule faster or smaller", group=LAYERS)]
Report = Annotated[
    PathText | None,
    Option(
        "write a web page with the whole answer: SRAM and units over time, layers, findings; it works offline",
        "R.html",
        group=REPORTS,
        writes="page",
    ),
]
Results = Annotated[
    PathText | None,
    Option("keep each result in this folder as soon as it is found, and reuse results that are still valid", "DIR", Path),
]
CpuOperations = Annotated[
    bool, Option("also name the operators that stay on the CPU, and say why: the value, the bound and what to change", group=REPORTS)
]
Cpu = Annotated[
    PathText,
    Option(
        "the core that runs operators on the CPU, calls the NPU and copies: cortex-m55, cortex-m85, or a TOML file of your own with "
        "ranges of cycles (default: cortex-m55, with estimated figures)",
        "NAME|FILE",
        group=REPORTS,
    ),
]
Energy = Annotated[
    PathText | None,
    Option(
        "also give the ratio of energies. The table has the energy of a MAC, of a byte of each memory and of a cycle ('illustrative' is "
        "included, and describes no real device)",
        "TABLE.toml",
    ),
]
Runtime = Annotated[
    Literal["tflm", "executorch", "bare"] | None,
    Option(
        "the runtime that the file is for: TFLite Micro, whose own bytes then count in --arena-cache-size, ExecuTorch, or firmware of "
        "your own; a network that it cannot run is refused (default: any)"
    ),
]
Sizes = Annotated[
    PathText | None,
    Option(
        "write the bytes that an application sets aside, such as kTensorArenaSize: a C header, or a Kconfig fragment",
        "SIZES.h|.conf",
        writes="sizes",
    ),
]
Json = Annotated[bool, Option("print one JSON document", only="words")]
