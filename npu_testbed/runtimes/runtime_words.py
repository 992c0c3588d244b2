"""Runtimes in words and as JSON: the bytes to set aside for each, the cycles there, and the required settings."""

from __future__ import annotations

from collections.abc import Sequence

from npu_model.memory.system import AXI0, AXI1
from npu_testbed.documents.document import extended
from npu_testbed.documents.units import RuntimeEntry
from npu_testbed.runtimes.own_share import UNMEASURED
from npu_testbed.runtimes.runtime_use import BARE, DRIVER_PORTS, EXECUTORCH, NAMES, TFLM, RuntimeUse
from validation.layout import filled, grid

_HEADERS = ("runtime", "set aside", "NPU cycles", "regions at AXI0", "at AXI1")

_DOMAINS = {AXI0: 0, AXI1: 3}
"""Value of a region in REGIONCFG that chooses a port, as Arm's core driver has them."""


def _total(placement: RuntimeUse) -> str:
    return "-" if placement.refused else f"{placement.arena + placement.fast:,}"


def _regions(placement: RuntimeUse, port: int) -> str:
    """The regions that the runtime binds at a port."""
    return ", ".join(str(region) for region, own in placement.ports if own == port) or "-"


def notes(placement: RuntimeUse) -> list[str]:
    """Sentences on the parts of a runtime's bytes, and on its settings."""
    name = NAMES[placement.runtime]
    if placement.refused:
        return [f"{name} cannot run this: {placement.refused}."]
    said = {TFLM: _tflm_notes, EXECUTORCH: _executorch_notes, BARE: _bare_notes}[placement.runtime](placement)
    if placement.fast:
        said.append(f"{name} also needs a fast scratch of {placement.fast:,} bytes, which the driver is given.")
    return said


def _tflm_notes(placement: RuntimeUse) -> list[str]:
    own = placement.own
    assert own is not None  # noqa: S101  # measured for TFLite Micro
    added = f", {placement.placed:,} for inputs and outputs" if placement.placed else ""
    least = f"at least {own.least:,}" if own.unmeasured else f"{own.least:,} to {own.most:,}"
    kernels = f", up to {own.kernels:,} of them for kernels on the CPU" if own.kernels else ""
    said = [
        f"TFLite Micro: kTensorArenaSize {placement.arena:,} is {placement.planned:,} of the file{added}, and {least} of its own{kernels}."
    ]
    if own.unmeasured:
        said.append(
            f"No bytes are known for {', '.join(own.unmeasured)} on the CPU: the size allows {UNMEASURED:,} for each, "
            "and a kernel may take several times that. Set what arena_used_bytes() prints on the board."
        )
    return said


def _executorch_notes(placement: RuntimeUse) -> list[str]:
    own = placement.own
    assert own is not None  # noqa: S101  # measured for ExecuTorch
    temporary = f"ExecuTorch: the temporary pool needs {placement.planned:,} bytes, which is the delegate's scratch."
    if own.unmeasured:
        method = f"The method's pool needs {placement.placed:,} for its planned buffers, and at least {own.least:,} of its own"
        return [
            f"{temporary} {method}: {UNMEASURED:,} are allowed for each of {own.unmeasured[0]}. Arm's runner copies the inputs there, too."
        ]
    method = f"The method's pool needs {placement.placed:,} for inputs and outputs, and {own.least:,} to {own.most:,} of its own"
    return [f"{temporary} {method}. Operators around the delegate need more, and Arm's runner copies the inputs there, too."]


def _bare_notes(placement: RuntimeUse) -> list[str]:
    if not placement.outside:
        return []
    ports = dict(placement.ports)
    where = " and ".join(f"{size:,} bytes in region {region} at AXI{ports[region]}" for region, size in placement.outside)
    differing = [region for region, _ in placement.outside if ports[region] != DRIVER_PORTS[region]]
    values = " and ".join(f"{_DOMAINS[ports[region]]} for region {region}" for region in differing)
    said = f"set REGIONCFG to {values}" if differing else "the driver's default REGIONCFG has these ports"
    return [f"Your own firmware binds {where}: {said}. `export --format c` names the addresses."]


def run_text(placement: RuntimeUse) -> str:
    """The cycles in a runtime and the ports of the regions, in a sentence; "" where nothing was replayed.

    >>> run_text(RuntimeUse("tflm", 12800, cycles=13785, ports=((0, 1), (1, 0), (3, 0))))
    'TFLite Micro: 13,785 NPU cycles, with regions 1, 3 at AXI0 and 0 at AXI1.'
    """
    if placement.cycles is None:
        return ""
    near, far = (_regions(placement, port) for port in (AXI0, AXI1))
    return f"{NAMES[placement.runtime]}: {placement.cycles:,} NPU cycles, with regions {near} at AXI0 and {far} at AXI1."


def homes_warning(placement: RuntimeUse, planned_cycles: int | None) -> str:
    """The sentence that a file with tensors outside the arena needs; "" if TFLite Micro runs it as planned, or cannot run it.

    >>> from npu_testbed.runtimes.own_share import OwnShare
    >>> homes_warning(RuntimeUse("tflm", 12800, 27648, OwnShare(416, 480, 320), cycles=309024), 354224)
    'TFLite Micro plans the inputs and outputs of this file into its own arena: set aside 40,928 bytes and not 12,800, and expect 309,024 \
cycles and not 354,224. To run as planned, firmware binds the regions itself (`export --format c`).'
    """
    if placement.refused or not placement.placed or placement.runtime != TFLM:
        return ""
    cycles = placement.cycles
    expect = "" if cycles is None or cycles == planned_cycles else f", and expect {cycles:,} cycles and not {planned_cycles or 0:,}"
    return (
        f"{NAMES[TFLM]} plans the inputs and outputs of this file into its own arena: set aside {placement.arena:,} bytes and not "
        f"{placement.planned:,}{expect}. To run as planned, firmware binds the regions itself (`export --format c`)."
    )


def runtimes_text(placements: Sequence[RuntimeUse]) -> str:
    """A table with the bytes to set aside, the cycles, and the port of each region for each runtime, and explanations."""
    rows = [
        (NAMES[one.runtime], _total(one), "-" if one.cycles is None else f"{one.cycles:,}", *(_regions(one, port) for port in (AXI0, AXI1)))
        for one in placements
    ]
    said = [filled(sentence) for one in placements for sentence in notes(one)]
    return "\n".join((grid(_HEADERS, rows, (True, False, False, False, False)), "", *said))


def runtimes_json(placements: Sequence[RuntimeUse]) -> tuple[RuntimeEntry, ...]:
    """The placements for documents."""
    pairs = ((one, {str(region): port for region, port in one.ports}) for one in placements)
    return tuple(extended(RuntimeEntry, one, set_aside_bytes=one.arena + one.fast, ports=ports) for one, ports in pairs)
