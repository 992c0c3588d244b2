"""A network as C99 sources: driver payloads, constants, the arena's size, and the addresses of its inputs and outputs.

The sources need only ``stddef.h`` and ``stdint.h``. The arrays suit the Ethos-U core driver's ``ethosu_invoke_v3``: one call per job, with
the base addresses and sizes that ``NAME_bind`` fills in.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from msgspec import Struct

from npu_model.compiled.layouts import layout_sentences
from npu_model.compiled.lost_inputs import lost_inputs
from npu_model.compiled.network import CompiledNetwork, initial_byte
from npu_model.errors import InputError
from npu_model.export.regions import check_network, check_written, constants_of, cpu_codes, home_sizes, needs_fast_scratch
from npu_model.export.tflite_file import payload_of
from npu_model.program import Binding, Program
from npu_model.program.alignment import ALIGNMENT
from npu_model.program.region_numbers import FIRST_HOME

MAX_RANK = 8
"""The most dimensions of a LiteRT tensor, for which the description of an array has room."""

_BYTES_PER_LINE = 16
_HEX = tuple(f"0x{value:02x}," for value in range(256))
_PLAIN = frozenset(range(0x20, 0x7F)) - set(b'"\\?')
"""Characters that a C string holds unescaped. A question mark is not one, because it might begin a trigraph."""

_HEADER = """\
/* {name}.h: a network for {accelerator}, made by npu-testbed.
 *
 * Run the jobs in order with the Ethos-U core driver; the arena must be aligned to {alignment} bytes:
 *
 *     uint64_t base[{upper}_REGIONS];
 *     size_t size[{upper}_REGIONS];
 *     for (size_t job = 0; job < {upper}_JOBS; ++job) {{
{wait_told} *         {name}_bind(job, arena, {homes_handed}base, size);
 *         ethosu_invoke_v3(driver, {name}_jobs[job].payload, (int){name}_jobs[job].payload_size,
 *                          base, size, {upper}_REGIONS, NULL);
{free_told} *     }}
 *
 * Write inputs to arena + offset before, read outputs from arena + offset after.
{layouts_told}{lost_told}{homes_told} */
#ifndef {upper}_H
#define {upper}_H

#include <stddef.h>
#include <stdint.h>

#define {upper}_ACCELERATOR "{accelerator}"
#define {upper}_ARENA_SIZE {arena}u
#define {upper}_ALIGNMENT {alignment}u
#define {upper}_JOBS {jobs}u
#define {upper}_INPUTS {inputs}u
#define {upper}_OUTPUTS {outputs}u
#define {upper}_REGIONS {regions}u /* constants, arena, arena again (fast scratch){homes_named} */
{homes_sized}{ring_sized}
/* Attributes of the large arrays: define it to place them in a section of your own; keep the alignment. */
#ifndef {upper}_PLACEMENT
#define {upper}_PLACEMENT __attribute__((aligned({alignment})))
#endif

#ifdef __cplusplus
extern "C" {{
#endif

/* One run of the NPU: its driver payload, and the constants that it reads. */
typedef struct {{
    const uint8_t *payload;
    size_t payload_size;
    const uint8_t *constants;
    size_t constants_size;
{wait_field}}} {name}_job;

/* An input or output: an array of {max_rank} dimensions or fewer, dense and row-major, at a byte offset in the arena{in_region}.
 * real = scale * (value - zero_point); a scale of 0 says that the array is not quantised. */
typedef struct {{
    const char *name;
    size_t offset;
    size_t size;
    uint8_t bits;
    uint8_t is_signed;
    uint8_t rank;
    int32_t shape[{max_rank}];
    float scale;
    int32_t zero_point;
{region_field}}} {name}_tensor;

extern const {name}_job {name}_jobs[{upper}_JOBS];
extern const {name}_tensor {name}_inputs[{upper}_INPUTS];
extern const {name}_tensor {name}_outputs[{upper}_OUTPUTS];

/* Base addresses and sizes of a job's regions. */
void {name}_bind(size_t job, void *arena, {homes_taken}uint64_t base[{upper}_REGIONS], size_t size[{upper}_REGIONS]);
{reset}
#ifdef __cplusplus
}}
#endif

#endif
"""

_SOURCE = """\
/* {name}.c: the content of {name}.h, made by npu-testbed. */
#include "{name}.h"

{arrays}
const {name}_job {name}_jobs[{upper}_JOBS] = {{
{jobs}}};

const {name}_tensor {name}_inputs[{upper}_INPUTS] = {{
{inputs}}};

const {name}_tensor {name}_outputs[{upper}_OUTPUTS] = {{
{outputs}}};

void {name}_bind(size_t job, void *arena, {homes_taken}uint64_t base[{upper}_REGIONS], size_t size[{upper}_REGIONS])
{{
    base[0] = (uint64_t)(uintptr_t){name}_jobs[job].constants;
    size[0] = {name}_jobs[job].constants_size;
    base[1] = base[2] = (uint64_t)(uintptr_t)arena;
    size[1] = size[2] = {upper}_ARENA_SIZE;
{homes_bound}}}
{reset}"""

_RESET_DECLARED = """
/* Writes what the network's states hold before the first inference; keep their {size} bytes of the arena between inferences. */
void {name}_reset(void *arena);
"""

_RESET_DEFINED = """
void {name}_reset(void *arena)
{{
    uint8_t *bytes = (uint8_t *)arena;
    size_t i;
{loops}}}
"""


def c_identifier(text: str) -> str:
    """A name for C made from any text.

    >>> c_identifier("2nd model, v1.0")
    'network_2nd_model_v1_0'
    """
    name = re.sub(r"[^A-Za-z0-9]+", "_", text).strip("_")
    return name if re.match(r"[A-Za-z]", name) else f"network_{name}".rstrip("_")


def _string(text: str) -> str:
    """A string literal. Bytes outside printable ASCII are octal escapes of UTF-8."""
    return '"' + "".join(chr(byte) if byte in _PLAIN else f"\\{byte:03o}" for byte in text.encode("utf-8", "replace")) + '"'


def _array(name: str, placement: str, content: bytes) -> str:
    """An array definition. C has no empty array, so an empty one gets a zero byte that no size counts."""
    data = content or bytes(1)
    lines = (data[start : start + _BYTES_PER_LINE] for start in range(0, len(data), _BYTES_PER_LINE))
    rows = "\n".join("    " + " ".join(_HEX[byte] for byte in line) for line in lines)
    return f"static const uint8_t {name}[{len(data)}] {placement} = {{\n{rows}\n}};\n"


_NO_ROWS = dict.fromkeys(("wait_told", "free_told", "wait_field", "ring_sized"), "")


def _lost_text(network: CompiledNetwork) -> str:
    """The lines of a header on the inputs that a run overwrites; "" if it overwrites none."""
    lines = []
    for one in lost_inputs(network):
        over = f"output {' and '.join(map(str, one.outputs))} lies over it" if one.outputs else "another tensor lies there"
        lines.append(f" * Input {one.number} is gone after a run, as {over}: write it before each run.\n")
    return "".join(lines)


def _layouts_text(network: CompiledNetwork) -> str:
    """The lines of a header on inputs and outputs whose order differs from the model's; "" if none does."""
    return "".join(f" * {sentence}\n" for sentence in layout_sentences(network.nhwc, network.inputs, network.outputs))


def _row_texts(name: str, ring: int) -> dict[str, str]:
    """Texts of a header on an input that arrives row by row."""
    return {
        "wait_told": f" *         wait_for_rows({name}_jobs[job].rows);   (yours: of the input that arrives row by row)\n",
        "free_told": f" *         free_rows({name}_jobs[job].freed);      (yours: the source may write over these)\n",
        "wait_field": (
            "    size_t rows;  /* of the input that arrives row by row: those that must be there before the job */\n"
            "    size_t freed; /* those that may be overwritten behind it */\n"
        ),
        "ring_sized": (
            f"#define {name.upper()}_RING_ROWS {ring}u /* row y of the streamed input goes to place y mod {ring}, "
            f"once rows up to y - {ring} are free */\n"
        ),
    }


def _home_texts(upper: str, sizes: dict[int, int]) -> dict[str, str]:
    """Texts of header and source on home regions. All of them are "" for a network without any."""
    names = ("homes_handed", "homes_told", "homes_named", "homes_sized", "homes_taken", "homes_bound", "in_region", "region_field")
    texts = dict.fromkeys(names, "")
    if not sizes:
        return texts | {"regions": "3"}
    regions = max(sizes) + 1
    numbers = range(FIRST_HOME, regions)
    told = (
        f" * A tensor of region {FIRST_HOME} or above lies outside the arena instead, at homes[region - {FIRST_HOME}] + offset: in memory\n"
        " * that REGIONCFG maps that region to, each home aligned like the arena.\n"
    )
    sized = "".join(f"#define {upper}_HOME_{number}_SIZE {sizes.get(number, 0)}u\n" for number in numbers)
    bound = "".join(
        f"    base[{number}] = (uint64_t)(uintptr_t)homes[{number - FIRST_HOME}];\n    size[{number}] = {upper}_HOME_{number}_SIZE;\n"
        for number in numbers
    )
    return texts | {
        "homes_handed": "homes, ",
        "homes_told": told,
        "homes_named": f", {regions - FIRST_HOME} homes of tensors outside the arena",
        "homes_sized": f"#define {upper}_HOMES {regions - FIRST_HOME}u\n{sized}",
        "homes_taken": f"void *const homes[{upper}_HOMES], ",
        "homes_bound": bound,
        "in_region": ", or in its region",
        "region_field": "    uint8_t region;\n",
        "regions": str(regions),
    }


def _tensor(binding: Binding, *, with_region: bool) -> str:
    if len(binding.shape) > MAX_RANK:
        raise InputError(f"Tensor {binding.name!r} has {len(binding.shape)} dimensions: {MAX_RANK} can be described; reshape it.")
    scale, zero_point = (repr(binding.quantisation.scale), binding.quantisation.zero_point) if binding.quantisation else ("0.0", 0)
    shape = ", ".join(map(str, binding.shape)) or "0"
    return (
        f"    {{{_string(binding.name)}, {binding.address}u, {binding.size}u, {binding.dtype.bits}u, {int(binding.dtype.signed)}u, "
        f"{len(binding.shape)}u, {{{shape}}}, {scale}f, {zero_point}{f', {binding.region}u' if with_region else ''}}},\n"
    )


def _tensors(bindings: Iterable[Binding], *, with_region: bool) -> str:
    return "".join(_tensor(binding, with_region=with_region) for binding in bindings)


def check_whole(network: CompiledNetwork, file_kind: str) -> None:
    """InputError unless all of the network runs on the NPU in one arena, with inputs and outputs of its own."""
    check_network(network)
    if cpu_codes(network):
        raise InputError(f"The network runs {cpu_codes(network)[0]} on the CPU: {file_kind} has no kernels for it; export a .tflite file.")
    if network.others:
        raise InputError(
            f"The network has subgraphs on the CPU beside the first ({network.others}): {file_kind} has no kernels for them; "
            "export a .tflite file."
        )
    check_written(network, file_kind)
    if any(needs_fast_scratch(program) for program in network.programs):
        raise InputError(f"The network has fast scratch memory apart from its arena: {file_kind} has one arena; compile for Shared_Sram.")
    if len({program.accelerator for program in network.programs}) > 1:
        raise InputError("The network's programs are for different accelerators: compile it for one.")
    if not network.inputs or not network.outputs:
        raise InputError(
            f"The network has {len(network.inputs)} inputs and {len(network.outputs)} outputs: {file_kind} needs 1 or more of each."
        )


class StreamedRows(Struct, frozen=True):
    """The rows of an input that arrive one by one in a ring of ``ring`` rows.

    They are the rows that must have arrived before each job, and the rows that are free after it.
    """

    until: tuple[int, ...]
    freed: tuple[int, ...]
    ring: int


def _arrays(name: str, programs: tuple[Program, ...], rows: StreamedRows | None) -> tuple[list[str], str]:
    """The array definitions, and the table of jobs, each with its rows of a streamed input.

    The programs of one compilation share constants.
    """
    placement = f"{name.upper()}_PLACEMENT"
    contents = list(dict.fromkeys(constants_of(program) for program in programs))
    arrays = [_array(f"constants_{number}", placement, content) for number, content in enumerate(contents)]
    jobs = []
    for job, program in enumerate(programs):
        payload, constants = payload_of(program), constants_of(program)
        arrays.append(_array(f"payload_{job}", placement, payload))
        waits = f", {rows.until[job]}u, {rows.freed[job]}u" if rows is not None else ""
        jobs.append(f"    {{payload_{job}, {len(payload)}u, constants_{contents.index(constants)}, {len(constants)}u{waits}}},\n")
    return arrays, "".join(jobs)


def _reset(name: str, variables: tuple[Binding, ...]) -> tuple[str, str]:
    """Declaration and definition of the function that fills the states; "" for a network without states."""
    if not variables:
        return "", ""
    fills = [(v, initial_byte(v.dtype, v.quantisation.zero_point if v.quantisation else 0)) for v in variables]
    loops = "".join(f"    for (i = 0; i < {v.size}u; ++i)\n        bytes[{v.address}u + i] = {byte}u;\n" for v, byte in fills)
    declared = _RESET_DECLARED.format(name=name, size=sum(v.size for v in variables))
    return declared, _RESET_DEFINED.format(name=name, loops=loops)


def export_c(network: CompiledNetwork, name: str, rows: StreamedRows | None = None) -> dict[str, str]:
    """``name.h`` and ``name.c``, by file name. All names in them begin with ``name``.

    ``rows`` describes an input that arrives row by row (None: no input does). The sources compile without a warning as C99 with ``gcc -Wall
    -Wextra``, and as C++. InputError if ``name`` is not a C identifier, or if the network has CPU operators or breaks a rule of its
    accelerator.
    """
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name):
        raise InputError(f"{name!r} cannot name things in C: give a letter followed by letters, digits and underscores.")
    check_whole(network, "the C format")
    arrays, jobs = _arrays(name, network.programs, rows)
    declared, defined = _reset(name, network.variables)
    sizes = home_sizes(network)
    homes = _home_texts(name.upper(), sizes) | (_NO_ROWS if rows is None else _row_texts(name, rows.ring))
    header = _HEADER.format(
        **homes,
        layouts_told=_layouts_text(network),
        lost_told=_lost_text(network),
        reset=declared,
        name=name,
        upper=name.upper(),
        accelerator=network.programs[0].accelerator,
        arena=network.arena_size,
        alignment=ALIGNMENT,
        max_rank=MAX_RANK,
        jobs=len(network.programs),
        inputs=len(network.inputs),
        outputs=len(network.outputs),
    )
    source = _SOURCE.format(
        **homes,
        reset=defined,
        name=name,
        upper=name.upper(),
        arrays="\n".join(arrays),
        jobs=jobs,
        inputs=_tensors(network.inputs, with_region=bool(sizes)),
        outputs=_tensors(network.outputs, with_region=bool(sizes)),
    )
    return {f"{name}.h": header, f"{name}.c": source}
