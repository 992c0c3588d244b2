"""The part of documents with the bytes that each runtime sets aside for a network."""

from __future__ import annotations

from typing import Annotated

from npu_testbed.documents.document import Entry, meaning


class OwnShareEntry(Entry, frozen=True):
    """Bytes that a runtime takes for itself."""

    least_bytes: int
    most_bytes: int


class RuntimeEntry(Entry, frozen=True):
    """A network in a runtime; all figures are 0 if the runtime cannot run it."""

    runtime: Annotated[str, meaning("tflm, executorch or bare.")]
    set_aside_bytes: Annotated[int, meaning("Bytes that the application sets aside for the runtime.")]
    file_bytes: Annotated[int, meaning("Bytes of the arena that the file asks for.")]
    placed_bytes: Annotated[int, meaning("Bytes of inputs and outputs that the runtime places itself.")]
    own_bytes: Annotated[OwnShareEntry | None, meaning("Bytes that the runtime takes for itself; null if not measured.")]
    npu_cycles: Annotated[int | None, meaning("NPU cycles in this runtime; null where nothing was replayed.")]
    ports: Annotated[dict[str, int], meaning("AXI port of each region that the network uses, by its number.")]
    refused: Annotated[str, meaning("Why the runtime cannot run the network; empty if it can.")]


Runtimes = Annotated[tuple[RuntimeEntry, ...], meaning("What each runtime sets aside, and the NPU cycles there.")]
