"""The document of ``verify``."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import UNSET, UnsetType, field

from npu_testbed.documents.document import STRUCTURE, Document, Entry, meaning
from npu_testbed.documents.units import Bytes, DifferingBytes, Hazards, Seed


class OutputEntry(Entry, frozen=True):
    """An output and the reference's output."""

    reference: str
    output: str
    differing: DifferingBytes
    size: Bytes
    undefined: Annotated[int, meaning("Bytes that could not be compared, as the operator defines only a part of its output.")] = 0


class DivergenceEntry(Entry, frozen=True):
    """The first layer whose tensor differs."""

    reference: str
    layer: str
    differing: Annotated[int, meaning("Elements of the tensor that differ.")] = field(name="elements_differing")
    size: int = field(name="elements")
    largest: Annotated[int, meaning("Largest difference of two elements; -1 if unknown.")] = field(name="largest_difference")


class VerifyDocument(Document, frozen=True, tag="verify"):
    """Outputs and the references' outputs."""

    model: str
    inferences: int
    given: Annotated[int, meaning("Inferences on inputs that the user gave with --input; the others are random.")]
    seed: Seed
    comparisons: tuple[OutputEntry, ...]
    skipped: str
    fully_connected: tuple[str, ...]
    unmended: tuple[str, ...]
    hazards: Hazards
    began: Annotated[
        DivergenceEntry | None, meaning("The first layer whose tensor differs from the reference; null if none does or it cannot be told.")
    ]
    remark: str
    passed: bool
    tensorir: Annotated[dict[str, Any], meaning("What the proof in TensorIR found, with --tensorir.")] | UnsetType = UNSET
    schema: Annotated[Literal[5], STRUCTURE] = 5
