"""A module compiled by TVM, with the memory of a function that was read off that very compile and not off a copy lowered apart."""

from __future__ import annotations

from typing import Any

from cascader.tensorir.compat import SRAM, bytes_of, load
from cascader.tensorir.live_ranges import in_sram, live_ranges, peak
from npu_model.values import dataclass


@dataclass(frozen=True, slots=True, eq=False)
class Measured:
    """Machine code, and one of its functions as ``lowered``, in which every buffer is still apart.

    ``buffers`` are the bytes of those in the cascade memory, by name, ``live`` the most of them that live at once. ``placed`` is the one
    allocation in which TVM itself places all of them.
    """

    library: Any
    lowered: Any
    buffers: dict[str, int]
    live: int
    placed: int


def compile_measured(module: Any, function: str, target: Any = "llvm", *, checked: bool = True) -> Measured:
    """Compile for a target of TVM and look at one function of the module.

    Not ``checked``, the functions take any array for a parameter: the caller has looked at its form, and saves the machine code of the
    checks, which is most of it where constants are many.
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
