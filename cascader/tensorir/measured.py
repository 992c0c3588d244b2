"""A module compiled by TVM, and the memory of one function, taken from the same compilation and not from a separate lowering."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from msgspec import Struct

from cascader.allocate.extents import fixed, live_bytes
from cascader.tensorir.compat import SRAM, buffer_of, bytes_of, load, scope_of, walk


class LiveRange(Struct, frozen=True):
    """First and last statement that use a buffer, as positions in the text of the function."""

    first: int
    last: int

    def union(self, other: LiveRange) -> LiveRange:
        """The range that covers both."""
        return LiveRange(min(self.first, other.first), max(self.last, other.last))


def live_ranges(body: Any) -> dict[Any, LiveRange]:
    """The live range of every buffer that a lowered statement uses.

    A buffer that is allocated in a loop lives there from its first use to its last use. A buffer that is allocated outside and used inside
    lives through the whole loop, because the next iteration may need its elements.
    """
    return _Walker().visit(body)


def peak(ranges: Mapping[Any, LiveRange], size: Callable[[Any], int]) -> int:
    """The most bytes alive at one statement; ``size`` gives a buffer's bytes."""
    extents = [fixed("", size(buffer), live.first, live.last + 1) for buffer, live in ranges.items()]
    return int(live_bytes(extents, max((extent.end for extent in extents), default=0)).max(initial=0))


def allocated(body: Any) -> list[Any]:
    """The buffers that a lowered statement allocates."""
    return [node.buffer for node in walk(body, load().tirx.AllocBuffer)]


def in_sram(body: Any) -> list[Any]:
    """The buffers that a lowered statement allocates in the cascade memory."""
    return [buffer for buffer in allocated(body) if scope_of(buffer) == SRAM]


class _Walker:
    """Counts statements and conditions from the top to the bottom."""

    def __init__(self) -> None:
        self._position = 0

    def visit(self, node: Any) -> dict[Any, LiveRange]:
        """The live ranges inside a statement or a condition."""
        tirx = load().tirx
        first = self._position + 1
        if isinstance(node, tirx.SeqStmt):
            return self._merged(node.seq)
        if isinstance(node, tirx.IfThenElse):
            return self._merged(part for part in (node.condition, node.then_case, node.else_case) if part is not None)
        if isinstance(node, tirx.AttrStmt):
            return self.visit(node.body)
        if isinstance(node, tirx.AllocBuffer):
            return {}
        if isinstance(node, (tirx.For, tirx.While)):
            found, own = self.visit(node.body), allocated(node.body)
            through = LiveRange(first, self._position)
            return {buffer: live if any(buffer.same_as(inside) for inside in own) else through for buffer, live in found.items()}
        self._position = first
        used = [buffer_of(access) for access in walk(node, (load().load, tirx.BufferStore))]
        return dict.fromkeys(used, LiveRange(first, first))

    def _merged(self, nodes: Iterable[Any]) -> dict[Any, LiveRange]:
        found: dict[Any, LiveRange] = {}
        for node in nodes:
            for buffer, live in self.visit(node).items():
                found[buffer] = found[buffer].union(live) if buffer in found else live
        return found


class Measured(Struct, frozen=True, eq=False):
    """Machine code, and one of its functions as ``lowered``, in which every buffer is still separate.

    ``buffers`` holds the bytes of the buffers in the cascade memory, by name. ``live`` is the most of these bytes that live at once.
    ``placed`` is the one allocation in which TVM itself places all of them.
    """

    library: Any
    lowered: Any
    buffers: dict[str, int]
    live: int
    placed: int


def compile_measured(module: Any, function: str, target: Any = "llvm", *, checked: bool = True) -> Measured:
    """Compile for a target of TVM and look at one function of the module.

    Without ``checked`` the functions accept any array for a parameter, because the caller has checked it. That saves the machine code of
    the checks, which is most of the code if there are many constants.
    """
    tvm = load().tvm
    after: dict[str, Any] = {}

    class Capture:
        def run_after_pass(self, result: Any, info: Any) -> None:
            after[str(info.name)] = result

    instrument = tvm.ir.instrument.pass_instrument(Capture)()
    with tvm.transform.PassContext(opt_level=3, config={"tirx.disable_assert": not checked}, instruments=[instrument]):
        library = tvm.compile(module, target=target)
    lowered, placed = (after[name][function] for name in ("s_tir.LowerOpaqueBlock", "tirx.StorageRewrite"))
    staged = in_sram(lowered.body)
    return Measured(
        library=library,
        lowered=lowered,
        buffers={str(buffer.name).removesuffix(f"_{SRAM}"): bytes_of(buffer) for buffer in staged},
        live=peak(live_ranges(lowered.body), lambda buffer: bytes_of(buffer) if buffer in staged else 0),
        placed=sum(map(bytes_of, in_sram(placed.body))),
    )
