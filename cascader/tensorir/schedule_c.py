"""A cascaded network as one C file for any processor: TVM's code of the schedule's kernels, its constants, and a function to call.

Nothing of TVM's runtime is needed. The function works in an arena that the caller gives and refuses one that is too small;
what else it uses is a block of accumulators on the stack. Weights are read where they are: a schedule's copies of them are
left out, and so are the bytes that they took.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from cascader.ethosu.network.network import Port
from cascader.ethosu.schedule.schedule import Schedule, arena_extent
from cascader.tensorir.compat import EXTERN_C, QUIET, load
from cascader.tensorir.kernels import SCRATCH
from cascader.tensorir.schedule_tir import C_FUNCTION, schedule_module
from npu_model.program.alignment import ALIGNMENT

_PER_LINE = 40

_SIGNATURE = "int {name}_run(void *arena, size_t arena_size, const void *inputs, void *outputs)"


def _array(values: NDArray[np.uint8]) -> str:
    texts = [str(value) for value in values.tolist()]
    lines = [",".join(texts[start : start + _PER_LINE]) for start in range(0, len(texts), _PER_LINE)]
    return ",\n".join(lines)


def _ports(ports: tuple[Port, ...]) -> str:
    return "".join(f" *   {'x'.join(map(str, port.shape))} {port.dtype}, {port.size} bytes\n" for port in ports)


def _header(name: str, arena_size: int, inputs: tuple[Port, ...], outputs: tuple[Port, ...]) -> str:
    guard = f"{name.upper()}_H"
    return (
        f"#ifndef {guard}\n#define {guard}\n\n#include <stddef.h>\n\n"
        "/* One inference. Inputs lie one after the other:\n" + _ports(inputs) + " * and so do outputs:\n" + _ports(outputs) + " *\n"
        f" * The arena begins at a multiple of {ALIGNMENT} and has arena_size bytes, of which {name.upper()}_ARENA_SIZE are used.\n"
        " * Returns 0, or -1 if the arena is too small; then nothing was written.\n */\n"
        f"#define {name.upper()}_ARENA_SIZE {arena_size}\n"
        f"#define {name.upper()}_INPUT_SIZE {sum(port.size for port in inputs)}\n"
        f"#define {name.upper()}_OUTPUT_SIZE {sum(port.size for port in outputs)}\n\n"
        '#ifdef __cplusplus\nextern "C"\n#endif\n' + _SIGNATURE.format(name=name) + ";\n\n#endif\n"
    )


def _kernels(source: str) -> str:
    """TVM's functions, without what it writes before them for its runtime."""
    text = source.replace(EXTERN_C, "")
    return text[text.index("TVM_DLL ") :].replace("TVM_DLL ", "static ")


def schedule_c(schedule: Schedule, name: str) -> dict[str, bytes]:
    """The C file and its header, by file name; ``name``, a C identifier, is what all public names begin with.

    InputError if TVM is not installed or a kernel cannot be expressed in TensorIR.
    """
    plan = replace(schedule, copies=(), arena_size=arena_extent(schedule.buffers))
    made = schedule_module(plan, as_c=True)
    kernels = _kernels(load().tvm.compile(made.module, target="c").mod.inspect_source())
    body = (
        f"    int32_t narrow[{SCRATCH}];\n    int64_t wide[{SCRATCH}];\n"
        f"    if (arena_size < {name.upper()}_ARENA_SIZE) return -1;\n"
        f"    {C_FUNCTION}((uint8_t *)arena, (uint8_t *)inputs, (uint8_t *)outputs, (uint8_t *)pool.bytes, narrow, wide);\n    return 0;\n"
    )
    source = (
        f"/* Generated: a cascaded network in C99, its kernels by TVM {load().version}. */\n{QUIET}"
        f'#include <stdint.h>\n\n#include "{name}.h"\n\n'
        # The union aligns the bytes for the widest elements that are read from them.
        f"static const union {{\n    uint8_t bytes[{len(made.pool)}];\n    int64_t widest;\n}} pool = {{{{\n{_array(made.pool)}\n}}}};\n\n"
        f"{kernels}\n{_SIGNATURE.format(name=name)} {{\n{body}}}\n"
    )
    header = _header(name, made.arena_size, made.inputs, made.outputs)
    return {f"{name}.h": header.encode("ascii"), f"{name}.c": source.encode("ascii")}
