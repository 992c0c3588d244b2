"""Functions in TensorIR as C99 for any processor: TVM's code, the constants, and a function that works in an arena.

RFC 0037 names Cortex-M as an outlook: cascading needs no NPU. The C code needs no TVM runtime and no heap. Its stack holds only
accumulators, for one element or for one block of channels. The function refuses an arena that is too small.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy.typing as npt
from msgspec import Struct
from msgspec.structs import replace

from cascader.allocate.extents import fixed
from cascader.allocate.moving import allocate
from cascader.ethosu.job.schedule import Schedule, arena_extent
from cascader.ethosu.network.network import Port
from cascader.tensorir.apply import Applied
from cascader.tensorir.compat import SRAM, bytes_of, item_size, load, rewrite, scope_of
from cascader.tensorir.kernels import SCRATCH
from cascader.tensorir.measured import allocated, in_sram, live_ranges, peak
from cascader.tensorir.one_arena import in_one_arena
from cascader.tensorir.schedule_tir import C_FUNCTION, schedule_module
from npu_model.errors import InputError
from npu_model.program.alignment import ALIGNMENT

Array = npt.NDArray[Any]

_C_TYPES = {f"{sign}int{bits}": f"{sign}int{bits}_t" for sign in ("", "u") for bits in (8, 16, 32, 64)} | {
    "float32": "float",
    "float64": "double",
}
_QUIET = '#ifdef __GNUC__\n#pragma GCC diagnostic ignored "-Wunused-variable"\n#endif\n'
"""Text before TVM's C code: it marks values that TVM's later passes do not use."""

_EXTERN_C = '#ifdef __cplusplus\nextern "C"\n#endif\n'
_PER_LINE = 40


def _compiled(module: Any) -> list[str]:
    """TVM's C code of a module: its static declarations and functions, without the macros and includes before the first one."""
    source = load().tvm.compile(module, target="c").mod.inspect_source()
    return [f"static {text}" for text in source.replace(_EXTERN_C, "").split("TVM_DLL ")[1:]]


def _lines(literals: Sequence[str]) -> str:
    """The elements of an array, several in a line."""
    return ",\n".join(",".join(literals[start : start + _PER_LINE]) for start in range(0, len(literals), _PER_LINE))


def _header(name: str, about: str, alignment: int, sizes: Mapping[str, int], signature: str) -> str:
    """The header of a function: a constant for each of the ``sizes``, whose names begin with ``name``, and the ``signature``."""
    upper = name.upper()
    constants = "".join(f"#define {upper}_{what} {size}\n" for what, size in sizes.items())
    return (
        f"#ifndef {upper}_H\n#define {upper}_H\n\n#include <stddef.h>\n#include <stdint.h>\n\n{constants}\n{_EXTERN_C}"
        f"/* {about}The arena begins at a multiple of {alignment} and has arena_size bytes, of which {upper}_ARENA_SIZE are used.\n"
        f" * Returns 0, or -1 if the arena is too small; then nothing was written. */\n{signature};\n\n#endif\n"
    )


def schedule_c(schedule: Schedule, name: str) -> dict[str, bytes]:
    """A network's C file and its header, by file name. All public names begin with ``name``, a C identifier.

    Tensors outside the arena get bytes after the arena, in the same block. Weights are read in place: the schedule's copies of weights, and
    their bytes, are left out. InputError if TVM is not installed or if TensorIR cannot express a kernel.
    """
    plan = in_one_arena(replace(schedule, copies=(), arena_size=arena_extent(schedule.buffers)))
    made = schedule_module(plan, as_c=True)
    signature = f"int {name}_run(void *arena, size_t arena_size, const void *inputs, void *outputs)"
    inputs, outputs = (sum(port.size for port in ports) for ports in (made.inputs, made.outputs))
    sizes = {"ARENA_SIZE": made.arena_size, "INPUT_SIZE": inputs, "OUTPUT_SIZE": outputs}
    about = f"One inference. Inputs lie one after the other:\n{_ports(made.inputs)} * and so do outputs:\n{_ports(made.outputs)} *\n * "
    body = (
        f"    int32_t narrow[{SCRATCH}];\n    int64_t wide[{SCRATCH}];\n"
        f"    if (arena_size < {name.upper()}_ARENA_SIZE) return -1;\n"
        f"    {C_FUNCTION}((uint8_t *)arena, (uint8_t *)inputs, (uint8_t *)outputs, (uint8_t *)pool.bytes, narrow, wide);\n    return 0;\n"
    )
    source = (
        f"/* Generated: a cascaded network in C99, its kernels by TVM {load().version}. */\n{_QUIET}"
        f'#include <stdint.h>\n\n#include "{name}.h"\n\n'
        # The union aligns the bytes for the widest elements in them.
        f"static const union {{\n    uint8_t bytes[{len(made.pool)}];\n    int64_t widest;\n}} pool = {{{{\n"
        f"{_lines([str(value) for value in made.pool.tolist()])}\n}}}};\n\n{''.join(_compiled(made.module))}\n{signature} {{\n{body}}}\n"
    )
    header = _header(name, about, ALIGNMENT, sizes, signature)
    return {f"{name}.h": header.encode("ascii"), f"{name}.c": source.encode("ascii")}


def _ports(ports: tuple[Port, ...]) -> str:
    return "".join(f" *   {'x'.join(map(str, port.shape))} {port.dtype}, {port.size} bytes\n" for port in ports)


class CSource(Struct, frozen=True):
    """C99 in two files, by name, and the ``arena`` in bytes. ``live`` is the most bytes of it that are alive at once.

    The function ``NAME_run(inputs..., outputs..., arena, arena_size)`` returns 0. If the arena is too small it returns -1 and writes
    nothing. The arena begins at a multiple of ``alignment``.
    """

    files: Mapping[str, str]
    arena: int
    live: int
    alignment: int


def c_source(applied: Applied, constants: Mapping[str, Array], name: str) -> CSource:
    """Cascaded Tensor Expressions and their constants as C99. All public names begin with ``name``, a C identifier.

    InputError for another name, a missing constant, or a type that C does not have.
    """
    if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) is None:
        raise InputError(f"{name!r} is to be the name of a C function: use letters, digits and underscores, no digit first.")
    if applied.counts:
        raise InputError("The schedule counts its work, for which the C function has no argument: apply it without counting.")
    function = applied.module["main"]
    placed = _place(function.body)
    texts = _compiled(_in_arena(function, placed, f"{name}_kernel"))
    (kernel,) = (text for text in texts if re.match(rf"static \w+ {name}_kernel\(.*\{{", text))
    names = [str(buffer.name) for buffer in function.params]
    types = {own: _c_type(own, str(buffer.dtype)) for own, buffer in zip(names, function.params, strict=True)}
    known = {**constants, **applied.tables}
    arrays = [_constant(name, own, types[own], known) for own in names if own in applied.constants]
    passed = [f"{'const ' if own in applied.inputs else ''}{types[own]} *{own}" for own in names if own not in applied.constants]
    signature = f"int {name}_run({', '.join(passed)}, void *arena, size_t arena_size)"
    arguments = [f"(void *){name}_{own}" if own in applied.constants else f"(void *){own}" for own in names]
    body = (
        f"    union {{ uint8_t bytes[{max(1, placed.stack)}]; int64_t widest; double real; }} accumulators;\n"
        f"    if (arena_size < {name.upper()}_ARENA_SIZE) return -1;\n"
        f"    {name}_kernel({', '.join(arguments)}, arena, accumulators.bytes);\n    return 0;\n"
    )
    source = (
        f"/* Generated: cascaded Tensor Expressions in C99, by TVM {load().version}. */\n{_QUIET}#include <math.h>\n"
        f'#include <stdbool.h>\n\n#include "{name}.h"\n\n{"".join(arrays)}{kernel.strip()}\n'
        f"\n{signature} {{\n{body}}}\n"
    )
    header = _header(name, "", placed.alignment, {"ARENA_SIZE": placed.arena}, signature)
    return CSource({f"{name}.h": header, f"{name}.c": source}, placed.arena, placed.live, placed.alignment)


class _Placed(Struct, frozen=True, eq=False):
    """Byte offsets of buffers in the arena and of accumulators on the stack. ``live`` bytes of the arena are alive at once."""

    offsets: Mapping[Any, int]
    arena: int
    live: int
    alignment: int
    stack: int


def _place(body: Any) -> _Placed:
    """Give every buffer of the function an address by its live range, with the scheduler's own allocator."""
    ranges, staged = live_ranges(body), in_sram(body)
    offsets: dict[Any, int] = {}
    sizes = []
    for buffers in (staged, [buffer for buffer in allocated(body) if buffer not in staged]):
        used = [buffer for buffer in buffers if buffer in ranges]
        extents = [fixed(str(at), bytes_of(buffer), ranges[buffer].first, ranges[buffer].last + 1) for at, buffer in enumerate(used)]
        _, addresses = allocate(extents, alignment=max(map(item_size, used), default=1))
        offsets |= dict(zip(used, addresses, strict=True))
        sizes.append(max((address + bytes_of(buffer) for address, buffer in zip(addresses, used, strict=True)), default=0))
    live = peak(ranges, lambda buffer: bytes_of(buffer) if buffer in staged else 0)
    return _Placed(offsets, sizes[0], live, max(map(item_size, staged), default=1), sizes[1])


def _in_arena(function: Any, placed: _Placed, name: str) -> Any:
    """The function of this name with pointers as parameters. Two more pointers hold its buffers, at their offsets."""
    compat = load()
    tirx, ir = compat.tirx, compat.tvm.ir

    def pointer(name: str, dtype: str) -> Any:
        return tirx.Var(name, ir.PointerType(ir.PrimType(dtype)))

    arena, stack = pointer("arena", "uint8"), pointer("accumulators", "uint8")
    parameters = [pointer(f"{buffer.name}_data", str(buffer.dtype)) for buffer in function.params]

    def declared(node: Any) -> Any:
        base = arena if scope_of(node.buffer) == SRAM else stack
        if node.buffer not in placed.offsets:
            return tirx.Evaluate(0)
        return tirx.DeclBuffer(node.buffer, data=tirx.handle_add_byte_offset(base, placed.offsets[node.buffer]))

    body = rewrite(function.body, {tirx.AllocBuffer: declared})
    given = [tirx.DeclBuffer(buffer, data=variable) for buffer, variable in zip(function.params, parameters, strict=True)]
    made = tirx.PrimFunc([*parameters, arena, stack], tirx.SeqStmt([*given, body]))
    # A single function becomes the entry, and TVM gives it the calling convention of its runtime.
    other = tirx.PrimFunc([], tirx.Evaluate(0))
    return compat.tvm.IRModule({name: made.with_attr("tirx.noalias", True), "other": other})


def _c_type(name: str, dtype: str) -> str:
    if dtype not in _C_TYPES:
        raise InputError(f"Tensor {name!r} is {dtype}, which C does not have: use one of {', '.join(_C_TYPES)}.")
    return _C_TYPES[dtype]


def _constant(function: str, name: str, c_type: str, constants: Mapping[str, Array]) -> str:
    if name not in constants:
        raise InputError(f"Constant {name!r} is not among the arrays that are given: add it.")
    # repr of a float is exact; -2147483648 is not a literal of C.
    texts = ["(-2147483647 - 1)" if value == -(2**31) else repr(value) for value in constants[name].ravel().tolist()]
    return f"static const {c_type} {function}_{name}[{len(texts)}] = {{\n{_lines(texts)}\n}};\n\n"
