"""Sizes files: a C header or a Kconfig fragment with the bytes to set aside for a network."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from os import PathLike
from pathlib import Path

from npu_model.export import c_identifier
from npu_testbed.runtimes.runtime_use import BARE, EXECUTORCH, TFLM, RuntimeUse
from npu_testbed.runtimes.runtime_words import notes


def _values(placement: RuntimeUse) -> Iterator[tuple[str, int]]:
    """The names of a runtime's sizes, with their bytes."""
    if placement.refused:
        return
    if placement.runtime == TFLM:
        yield "kTensorArenaSize", placement.arena
    if placement.runtime == EXECUTORCH:
        yield "kExecutorchScratchSize", placement.planned
        yield "kExecutorchPlannedSize", placement.placed
        yield "kExecutorchMethodSize", placement.placed + (0 if placement.own is None else placement.own.most)
    if placement.runtime == BARE:
        yield "kNpuArenaSize", placement.planned
        yield from ((f"kNpuRegion{region}Size", size) for region, size in placement.outside)
        if placement.fast:
            yield "kNpuFastScratchSize", placement.fast


def _symbol(name: str) -> str:
    """A size's name in Kconfig.

    >>> _symbol("kTensorArenaSize"), _symbol("kNpuRegion3Size")
    ('CONFIG_TENSOR_ARENA_SIZE', 'CONFIG_NPU_REGION3_SIZE')
    """
    words = "".join(f"_{letter}" if letter.isupper() else letter for letter in name.removeprefix("k"))
    return f"CONFIG{words.upper()}"


def sizes_file(placements: Sequence[RuntimeUse], path: str | PathLike[str], network: str) -> bytes:
    """The content of a sizes file for a network; the file's name selects the form."""
    file = Path(path)
    said = [sentence for one in placements for sentence in notes(one)]
    values = [value for one in placements for value in _values(one)]
    head = f"Bytes to set aside for {c_identifier(network)}, made by npu-testbed."
    if file.suffix == ".conf":
        lines = [*(f"# {line}" for line in (head, *said)), *(f"{_symbol(name)}={size}" for name, size in values)]
        return ("\n".join(lines) + "\n").encode("ascii", "replace")
    guard = f"{c_identifier(file.stem).upper()}_H"
    comment = "\n".join([f"/* {head}", *(f" * {line}" for line in said), " */"])
    constants = ",\n".join(f"    {name} = {size}" for name, size in values)
    return f"{comment}\n#ifndef {guard}\n#define {guard}\n\nenum {{\n{constants}\n}};\n\n#endif\n".encode("ascii", "replace")
