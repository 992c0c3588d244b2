"""The document of ``verify``."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import UNSET, UnsetType

from npu_testbed.documents.document import STRUCTURE, VERSION, Document, Entry, ProductVersion, meaning
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
    elements_differing: Annotated[int, meaning("Elements of the tensor that differ.")]
    elements: int
    largest_difference: Annotated[int, meaning("Largest difference of two elements; -1 if unknown.")]


class VerifyDocument(Document, frozen=True):
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
    command: Literal["verify"] = "verify"
    schema: Annotated[Literal[5], STRUCTURE] = 5
    version: ProductVersion = VERSION
