"""Look-up tables in the shared buffer that a kernel's buffers overwrite before their use."""

from __future__ import annotations

from collections.abc import Iterator

from npu_model.accelerator import accelerator
from npu_model.program import ByteRange, DmaOperation, KernelOperation, Program
from sim.hazards.accesses import Accesses
from sim.hazards.race import SHRAM, LostTable, operation_name
from sim.hazards.spans import Spans


def lost_tables(program: Program, number: int = 0, programs: int = 1) -> Iterator[LostTable]:
    """Kernels whose table was overwritten by buffers of an earlier kernel after it was loaded.

    This can happen only on devices that reserve no banks of the shared buffer for tables. Another check asks whether a table was loaded at
    all.
    """
    device = accelerator(program.accelerator)
    if device.reserved_lut_banks:
        return
    accesses, last = Accesses(program, device), None
    loaded: list[ByteRange] = []
    for index, op in enumerate(program.operations):
        if isinstance(op, DmaOperation):
            loaded += [part for part in accesses.ranges(index, written=True) if part.region == SHRAM]
        elif isinstance(op, KernelOperation):
            tables = [part for part in accesses.ranges(index, written=False) if part.region == SHRAM]
            if not tables:
                last, loaded = index, []
            for table in tables if last is not None else ():
                if not _covers(loaded, table):
                    names = [operation_name(program, one, number, programs) for one in (last or 0, index)]
                    yield LostTable(number, last or 0, index, (names[0], names[1]), table)


def _covers(parts: list[ByteRange], whole: ByteRange) -> bool:
    """Whether every byte of a range is in one of the parts."""
    shared, _ = Spans.of(*parts).shared(Spans.of(whole))
    return shared == whole.length
