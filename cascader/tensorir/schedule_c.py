"""A cascaded network as one C file for any processor: TVM's code of the schedule's kernels, its constants, and a function to call.

Nothing of TVM's runtime is needed. The function works in an arena that the caller gives and refuses one that is too small;
what else it uses is a block of accumulators on the stack. Weights are read where they are: a schedule's copies of them are
left out, and so are the bytes that they took.
"""

from __future__ import annotations

from dataclasses import replace

from cascader.ethosu.network.network import Port
from cascader.ethosu.schedule.schedule import Schedule, arena_extent
from cascader.tensorir.c_text import QUIET, array_lines, header, static_functions
from cascader.tensorir.compat import load
from cascader.tensorir.kernels import SCRATCH
from cascader.tensorir.schedule_tir import C_FUNCTION, ScheduleModule, schedule_module
from npu_model.program.alignment import ALIGNMENT

_SIGNATURE = "int {name}_run(void *arena, size_t arena_size, const void *inputs, void *outputs)"


def _ports(ports: tuple[Port, ...]) -> str:
    return "".join(f" *   {'x'.join(map(str, port.shape))} {port.dtype}, {port.size} bytes\n" for port in ports)


def _header(name: str, made: ScheduleModule) -> str:
    sizes = {
        "ARENA_SIZE": made.arena_size,
        "INPUT_SIZE": sum(port.size for port in made.inputs),
        "OUTPUT_SIZE": sum(port.size for port in made.outputs),
    }
    comment = (
        f"One inference. Inputs lie one after the other:\n{_ports(made.inputs)} * and so do outputs:\n{_ports(made.outputs)} *\n"
        f" * The arena begins at a multiple of {ALIGNMENT} and has arena_size bytes, of which {name.upper()}_ARENA_SIZE are used.\n"
        " * Returns 0, or -1 if the arena is too small; then nothing was written."
    )
    return header(name, comment, sizes, _SIGNATURE.format(name=name))


def schedule_c(schedule: Schedule, name: str) -> dict[str, bytes]:
    """The C file and its header, by file name; ``name``, a C identifier, is what all public names begin with.

    InputError if TVM is not installed or a kernel cannot be expressed in TensorIR.
    """
    plan = replace(schedule, copies=(), arena_size=arena_extent(schedule.buffers))
    made = schedule_module(plan, as_c=True)
    kernels = "".join(static_functions(load().tvm.compile(made.module, target="c").mod.inspect_source()))
    pool = array_lines([str(value) for value in made.pool.tolist()])
    body = (
        f"    int32_t narrow[{SCRATCH}];\n    int64_t wide[{SCRATCH}];\n"
        f"    if (arena_size < {name.upper()}_ARENA_SIZE) return -1;\n"
        f"    {C_FUNCTION}((uint8_t *)arena, (uint8_t *)inputs, (uint8_t *)outputs, (uint8_t *)pool.bytes, narrow, wide);\n    return 0;\n"
    )
    source = (
        f"/* Generated: a cascaded network in C99, its kernels by TVM {load().version}. */\n{QUIET}"
        f'#include <stdint.h>\n\n#include "{name}.h"\n\n'
        # The union aligns the bytes for the widest elements that are read from them.
        f"static const union {{\n    uint8_t bytes[{len(made.pool)}];\n    int64_t widest;\n}} pool = {{{{\n{pool}\n}}}};\n\n"
        f"{kernels}\n{_SIGNATURE.format(name=name)} {{\n{body}}}\n"
    )
    return {f"{name}.h": _header(name, made).encode("ascii"), f"{name}.c": source.encode("ascii")}
