"""A cascaded function as C for any processor: TVM's code with every buffer at its place in an arena that the caller gives.

RFC 0037 names Cortex-M as an outlook: cascading needs no NPU. The C needs nothing of TVM's runtime, no heap, and of the
stack only the accumulators of one element.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy.typing as npt

from cascader.allocate.extents import fixed
from cascader.allocate.moving import allocate
from cascader.tensorir.apply import Applied
from cascader.tensorir.c_text import QUIET, array_lines, header, static_functions
from cascader.tensorir.compat import SRAM, bytes_of, item_size, load, rewrite, scope_of, shape_of
from cascader.tensorir.live_ranges import allocated, in_sram, live_ranges
from cascader.tensorir.measured import compile_measured
from npu_model.errors import InputError
from npu_model.values import dataclass

Array = npt.NDArray[Any]

_C_TYPES = {f"{sign}int{bits}": f"{sign}int{bits}_t" for sign in ("", "u") for bits in (8, 16, 32, 64)} | {
    "float32": "float",
    "float64": "double",
}


@dataclass(frozen=True, slots=True)
class CSource:
    """C99 in two files, by name, and the ``arena`` in bytes; ``live`` is the most bytes of it that are alive at once.

    The function ``NAME_run(inputs..., outputs..., arena, arena_size)`` returns 0, or -1 if the arena is smaller, and then
    has written nothing. The arena begins at a multiple of ``alignment``.
    """

    files: Mapping[str, str]
    arena: int
    live: int
    alignment: int


def c_source(applied: Applied, constants: Mapping[str, Array], name: str) -> CSource:
    """The function and its constants; ``name``, a C identifier, is what all public names begin with.

    InputError for another name, a missing constant, or a type that C does not have.
    """
    if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) is None:
        raise InputError(f"{name!r} is to be the name of a C function: use letters, digits and underscores, no digit first.")
    if applied.counts:
        raise InputError("The schedule counts its work, for which the C function has no argument: apply it without counting.")
    measured = compile_measured(applied.module, "main")
    lowered, placed = measured.lowered, _place(measured.lowered.body)
    kernel = _kernel(load().tvm.compile(_in_arena(lowered, placed), target="c").mod.inspect_source(), f"{name}_kernel")
    parameters = [_Parameter(str(buffer.name), str(buffer.dtype), shape_of(buffer)) for buffer in applied.module["main"].params]
    known = {**constants, **applied.tables}
    arrays = [_constant(f"{name}_{parameter.name}", parameter, known) for parameter in parameters if parameter.name in applied.constants]
    passed = [parameter for parameter in parameters if parameter.name not in applied.constants]
    head = _signature(name, passed, applied.inputs)
    arguments = [f"{name}_{own.name}" if own.name in applied.constants else own.name for own in parameters]
    body = (
        f"    union {{ uint8_t bytes[{max(1, placed.stack)}]; int64_t widest; double real; }} accumulators;\n"
        f"    if (arena_size < {name.upper()}_ARENA_SIZE) return -1;\n"
        f"    {name}_kernel({', '.join(f'(void *){argument}' for argument in arguments)}, arena, accumulators.bytes);\n    return 0;\n"
    )
    source = (
        f"/* Generated: cascaded Tensor Expressions in C99, by TVM {load().version}. */\n{QUIET}#include <math.h>\n"
        f'#include <stdbool.h>\n\n#include "{name}.h"\n\n{"".join(arrays)}{kernel}\n{head} {{\n{body}}}\n'
    )
    return CSource({f"{name}.h": _header(name, head, placed), f"{name}.c": source}, placed.arena, measured.live, placed.alignment)


@dataclass(frozen=True, slots=True, eq=False)
class _Placed:
    """Byte offsets: of buffers in the arena, of accumulators on the stack."""

    offsets: Mapping[Any, int]
    arena: int
    alignment: int
    stack: int


@dataclass(frozen=True, slots=True)
class _Parameter:
    name: str
    dtype: str
    shape: tuple[int, ...]

    @property
    def c_type(self) -> str:
        if self.dtype not in _C_TYPES:
            raise InputError(f"Tensor {self.name!r} is {self.dtype}, which C does not have: use one of {', '.join(_C_TYPES)}.")
        return _C_TYPES[self.dtype]


def _place(body: Any) -> _Placed:
    """Room for every buffer that the function allocates, by its live range: the scheduler's own allocator."""
    ranges, staged = live_ranges(body), in_sram(body)
    offsets: dict[Any, int] = {}
    sizes = []
    for buffers in (staged, [buffer for buffer in allocated(body) if buffer not in staged]):
        used = [buffer for buffer in buffers if buffer in ranges]
        extents = [fixed(str(at), bytes_of(buffer), ranges[buffer].first, ranges[buffer].last + 1) for at, buffer in enumerate(used)]
        _, addresses = allocate(extents, alignment=max(map(item_size, used), default=1))
        offsets |= dict(zip(used, addresses, strict=True))
        sizes.append(max((address + bytes_of(buffer) for address, buffer in zip(addresses, used, strict=True)), default=0))
    return _Placed(offsets, sizes[0], max(map(item_size, staged), default=1), sizes[1])


def _in_arena(lowered: Any, placed: _Placed) -> Any:
    """The lowered function with pointers for parameters and buffers at their offsets from two more of them."""
    compat = load()
    tirx, ir = compat.tirx, compat.tvm.ir

    def pointer(name: str, dtype: str) -> Any:
        return tirx.Var(name, ir.PointerType(ir.PrimType(dtype)))

    arena, stack = pointer("arena", "uint8"), pointer("accumulators", "uint8")
    parameters = [pointer(f"{buffer.name}_data", str(buffer.dtype)) for buffer in lowered.params]

    def declared(node: Any) -> Any:
        base = arena if scope_of(node.buffer) == SRAM else stack
        if node.buffer not in placed.offsets:
            return tirx.Evaluate(0)
        return tirx.DeclBuffer(node.buffer, data=tirx.handle_add_byte_offset(base, placed.offsets[node.buffer]))

    body = rewrite(lowered.body, {tirx.AllocBuffer: declared})
    given = [tirx.DeclBuffer(buffer, data=variable) for buffer, variable in zip(lowered.params, parameters, strict=True)]
    function = tirx.PrimFunc([*parameters, arena, stack], tirx.SeqStmt([*given, body]))
    # A function that is alone becomes the entry, which TVM gives the calling convention of its runtime.
    other = tirx.PrimFunc([], tirx.Evaluate(0))
    return compat.tvm.IRModule({"kernel": function.with_attr("tirx.noalias", True), "other": other})


def _kernel(source: str, name: str) -> str:
    """TVM's function, without what it writes before it for its runtime."""
    (own,) = (text for text in static_functions(source) if re.match(r"static \w+ kernel\(.*\{", text))
    return re.sub(r"\bkernel\b", name, own.strip()) + "\n"


def _signature(name: str, passed: Sequence[_Parameter], inputs: Sequence[str]) -> str:
    arguments = [f"{'const ' if own.name in inputs else ''}{own.c_type} *{own.name}" for own in passed]
    return f"int {name}_run({', '.join(arguments)}, void *arena, size_t arena_size)"


def _header(name: str, signature: str, placed: _Placed) -> str:
    comment = (
        f"The arena begins at a multiple of {placed.alignment} and has arena_size bytes, of which {name.upper()}_ARENA_SIZE are used.\n"
        " * Returns 0, or -1 if the arena is too small; then nothing was written."
    )
    return header(name, comment, {"ARENA_SIZE": placed.arena}, signature)


def _constant(symbol: str, parameter: _Parameter, constants: Mapping[str, Array]) -> str:
    if parameter.name not in constants:
        raise InputError(f"Constant {parameter.name!r} is not among the arrays that are given: add it.")
    # repr of a float is exact; -2147483648 is no literal of C.
    texts = ["(-2147483647 - 1)" if value == -(2**31) else repr(value) for value in constants[parameter.name].ravel().tolist()]
    return f"static const {parameter.c_type} {symbol}[{len(texts)}] = {{\n{array_lines(texts)}\n}};\n\n"
