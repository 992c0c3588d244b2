"""Findings of the check of hazards, as values and as sentences."""

from __future__ import annotations

from msgspec import Struct

from npu_model.program import ByteRange, DmaOperation, KernelOperation, Program

SHRAM = -1
"""Stands for the shared buffer in place of a region's number."""


class Race(Struct, frozen=True):
    """Two operations of a Program that use the same bytes in no guaranteed order, and at least one writes.

    ``first`` and ``second`` are their indices in stream order, ``names`` their names; ``bytes`` is the first run of ``shared`` bytes, of
    region :data:`SHRAM` if they lie in the shared buffer. ``first_writes`` and ``second_writes`` say who writes. ``missing`` is the wait
    (or the largest BLOCKDEP) that would order them.
    """

    program: int
    first: int
    second: int
    names: tuple[str, str]
    bytes: ByteRange
    shared: int
    first_writes: bool
    second_writes: bool
    missing: str

    @property
    def text(self) -> str:
        """The sentence with the two operations, the bytes and the missing wait."""
        does = "overwrites" if self.second_writes and not self.first_writes else "writes" if self.second_writes else "reads"
        done = "written" if self.first_writes else "read"
        where = "the shared buffer" if self.bytes.region == SHRAM else f"region {self.bytes.region}"
        span = f"bytes {self.bytes.start:#x} to {self.bytes.end:#x} of {where}"
        more = f" ({self.shared:,} in all)" if self.shared > self.bytes.length else ""
        return f"{_capital(self.names[1])} {does} {span}{more}, which {self.names[0]} may not yet have {done}: {self.missing}."


class LostTable(Struct, frozen=True):
    """A kernel ``second`` whose look-up table was loaded before kernel ``first`` had its buffers in the same ``bytes`` of SHRAM."""

    program: int
    first: int
    second: int
    names: tuple[str, str]
    bytes: ByteRange

    @property
    def text(self) -> str:
        """The sentence that names the two operations and the bytes."""
        span = f"bytes {self.bytes.start:#x} to {self.bytes.end:#x} of the shared buffer"
        return f"{_capital(self.names[1])} looks up values in {span}, where {self.names[0]} has had its buffers since: load the table anew."


class PartitionFault(Struct, frozen=True):
    """A kernel whose buffers in the shared buffer overlap or are too small; ``problem`` is the clause that says how."""

    program: int
    operation: int
    name: str
    problem: str

    @property
    def text(self) -> str:
        """The sentence that names the operation and the banks."""
        return f"{_capital(self.name)} {self.problem}."


def _capital(name: str) -> str:
    return name[:1].upper() + name[1:]


def operation_name(program: Program, index: int, number: int, programs: int) -> str:
    """Words for an operation: its index, its kind, its layer if known, and its program if there are several."""
    op = program.operations[index]
    kind = op.mnemonic if isinstance(op, KernelOperation) else "DMA" if isinstance(op, DmaOperation) else type(op).__name__
    what = " ".join(filter(None, (kind, program.name(index))))
    return f"operation {index} ({what})" + (f" of program {number}" if programs > 1 else "")
