"""Rules of the homes of a network: which tensors may live outside the arena, and where."""

from __future__ import annotations

from cascader.ethosu.network.network import ARENA, CpuPart, Home, Network
from cascader.graph.cascader_graph import TensorKind
from npu_model.errors import InputError
from npu_model.memory.system import AXI0, AXI1, MemorySystem
from npu_model.program.alignment import ALIGNMENT
from npu_model.program.region_numbers import FIRST_HOME, REGIONS

MAX_ARENA = 1 << 32
"""The U55 has 32-bit addresses (core driver)."""


def home_region(network: Network, tensor: str) -> int:
    """The region of a tensor that is not a constant."""
    return next((home.region for home in network.homes if home.tensor == tensor), ARENA)


def check_homes(network: Network, system: MemorySystem | None) -> None:
    """InputError at the first wrong home: of a constant, a state or a CPU operator's tensor, over another home, or on another port.

    The port of a home must be the port of its region in the schedule's memory ``system``, if that is known.
    """
    ports: dict[int, int] = {}
    spans: dict[int, list[tuple[int, int, str]]] = {}
    for home in network.homes:
        _check_tensor(network, home)
        _check_place(network, home)
        if ports.setdefault(home.region, home.port) != home.port:
            raise InputError(f"Region {home.region} lies behind both ports: give tensor {home.tensor!r} a region of its own.")
        start, end = home.address, home.address + network.graph.tensor(home.tensor).size
        for low, high, other in spans.setdefault(home.region, []):
            if start < high and low < end:
                raise InputError(f"Tensors {other!r} and {home.tensor!r} lie over each other in region {home.region}: move one of them.")
        spans[home.region].append((start, end, home.tensor))
    if len({home.tensor for home in network.homes}) < len(network.homes):
        raise InputError("A tensor has two homes: keep one.")
    if system is not None and any(system.port_of(region) != port for region, port in ports.items()):
        raise InputError("The schedule's memory system reaches a home region by another port than the home's: schedule the network again.")


def _check_tensor(network: Network, home: Home) -> None:
    tensor, name = network.graph.tensor(home.tensor), home.tensor
    if tensor.kind in (TensorKind.CONSTANT, TensorKind.VARIABLE):
        raise InputError(f"Tensor {name!r} is {tensor.kind.value} and has a home of its own: leave it where it is.")
    users = (*network.graph.producers(name), *network.graph.consumers(name))
    if any(isinstance(part.payload, CpuPart) for part in users):
        raise InputError(f"Tensor {name!r} has a home outside the arena but a CPU operator uses it: leave it in the arena.")


def _check_place(network: Network, home: Home) -> None:
    size = network.graph.tensor(home.tensor).size
    if not FIRST_HOME <= home.region < REGIONS or home.port not in (AXI0, AXI1):
        raise InputError(
            f"Tensor {home.tensor!r} lives in region {home.region} behind port {home.port}: regions {FIRST_HOME} to {REGIONS - 1} and "
            f"ports {AXI0} and {AXI1} are possible."
        )
    if home.address < 0 or home.address % ALIGNMENT or home.address + size > MAX_ARENA:
        raise InputError(
            f"Tensor {home.tensor!r} of {size} bytes lives at byte {home.address} of its region: a multiple of {ALIGNMENT} from 0 on, with "
            f"its end below {MAX_ARENA}, is needed."
        )
