"""Homes: a network with some of its tensors in other regions than the arena, as RFC 0037's home map has them.

A tensor with a home of its own lies there whole, and kernels read and write it stripe by stripe. Its base pointer is the one that a runtime
passes to the NPU's operator: region 3 for the first of the operator's inputs and so on, then its outputs, then all others. Where the NPU
has too few base pointers for that, and all homes are in one memory, they lie one after the other in region 3.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from msgspec.structs import replace

from cascader.ethosu.network.network import ARENA, CONSTANTS, CpuPart, EthosuPart, Home, Network, Segment
from cascader.ethosu.network.wanted_homes import Wanted
from cascader.graph.cascader_graph import TensorKind
from npu_model.errors import InputError
from npu_model.memory.system import MemorySystem
from npu_model.printable import shown
from npu_model.program import FeatureMap
from npu_model.program.alignment import ALIGNMENT
from npu_model.program.region_numbers import FIRST_HOME, REGIONS
from npu_model.shapes import round_up

INPUT, OUTPUT = "input", "output"
"""Names that stand for all inputs and for all outputs of a network."""


def home_addresses(network: Network) -> list[int]:
    """The address of each tensor in its home, by the tensors' numbers; 0 for tensors in the arena."""
    known = {home.tensor: home.address for home in network.homes}
    return [known.get(tensor.name, 0) for tensor in network.placed_tensors]


def with_homes(network: Network, wanted: Sequence[Wanted]) -> Network:
    """The network with its tensors in the requested homes. It is unchanged if no home is requested.

    InputError if a tensor is unknown, has two requested homes, may not leave the arena, or if there are too few base pointers.
    """
    if not wanted:
        return network
    memories: dict[str, Wanted] = {}
    for one in wanted:
        for tensor in _tensors(network, one.what):
            before = memories.setdefault(tensor, one)
            if (before.memory, before.port) != (one.memory, one.port):
                raise InputError(f"--home asks for tensor {shown(tensor)} in {before.memory} and in {one.memory}: give it one home.")
    for tensor, one in memories.items():
        _require_movable(network, tensor, one)
    homes = tuple(_homes(network, memories))
    regions = {home.tensor: home.region for home in homes}

    def moved(name: str | None, feature_map: FeatureMap) -> FeatureMap:
        is_home = name in regions and feature_map.region != CONSTANTS
        return replace(feature_map, region=regions[name]) if is_home and name is not None else feature_map

    changed = {
        name: replace(kernel, operation=kernel.on_maps(moved))
        for name, kernel in network.kernels.items()
        if any(tensor in regions for tensor, _ in kernel.maps)
    }
    return replace(network.with_kernels(changed), homes=homes)


def in_arena(network: Network) -> Network:
    """The network with all of its tensors in the arena. It is unchanged if they are there."""
    if not network.homes:
        return network

    def moved(_: str | None, feature_map: FeatureMap) -> FeatureMap:
        return replace(feature_map, region=ARENA) if feature_map.region >= FIRST_HOME else feature_map

    changed = {name: replace(part, operation=part.on_maps(moved)) for name, part in network.kernels.items() if uses_home(part)}
    return replace(network.with_kernels(changed), homes=())


def homed_forms(forms: Iterable[Network], wanted: Sequence[Wanted]) -> Iterator[Network]:
    """Forms of a network with their tensors in the requested homes; forms that have lost a named tensor are left out."""
    for form in forms:
        names = {tensor.name for tensor in form.graph.tensors} | {port.name for port in (*form.inputs, *form.outputs)} | {INPUT, OUTPUT}
        if all(one.what in names for one in wanted):
            yield with_homes(form, wanted)


def _tensors(network: Network, what: str) -> tuple[str, ...]:
    """The tensors for which a name stands."""
    ends = {INPUT: network.inputs, OUTPUT: network.outputs}
    if what in ends:
        return tuple(dict.fromkeys(port.tensor for port in ends[what]))
    named = [port.tensor for port in (*network.inputs, *network.outputs) if port.name == what]
    named += [tensor.name for tensor in network.graph.tensors if tensor.name == what and tensor.kind is not TensorKind.CONSTANT]
    if not named:
        ports = ", ".join(shown(port.name) for port in (*network.inputs, *network.outputs))
        raise InputError(f"--home names {shown(what)}, which the network does not have: write input, output, or one of {ports}.")
    return tuple(named[:1])


def _require_movable(network: Network, tensor: str, one: Wanted) -> None:
    """InputError if a tensor may not live in that memory."""
    if network.graph.tensor(tensor).kind is TensorKind.VARIABLE:
        raise InputError(f"Tensor {shown(tensor)} keeps state from one inference to the next: its home is the arena; leave it there.")
    users = (*network.graph.producers(tensor), *network.graph.consumers(tensor))
    on_cpu = next((part for part in users if isinstance(part.payload, CpuPart)), None)
    if on_cpu is not None and isinstance(on_cpu.payload, CpuPart):
        raise InputError(
            f"Tensor {shown(tensor)} is used by {on_cpu.payload.code} on the CPU, which works in the arena: leave it there, or give the "
            "home of a tensor that only the NPU uses."
        )
    if network.graph.producers(tensor) and not one.writable:
        raise InputError(f"The NPU writes tensor {shown(tensor)}, which {one.memory} does not take: choose a memory that it can write.")


def _segments(network: Network, tensor: str) -> Iterator[Segment]:
    """The NPU jobs that use a tensor, or get it as an input or output."""
    users = {part.name for part in (*network.graph.producers(tensor), *network.graph.consumers(tensor))}
    for segment in network.segments:
        if users.intersection(segment.parts) or any(port.tensor == tensor for port in segment.ports):
            yield segment


def _homes(network: Network, memories: dict[str, Wanted]) -> Iterator[Home]:
    """The homes of the tensors in the order of their regions.

    Tensors that a runtime passes to an operator come first, then one region for each memory.
    """
    numbers, rest = {}, []
    for tensor in memories:
        places = {_place(segment, tensor) for segment in _segments(network, tensor)}
        if len(places) > 1:
            raise InputError(f"Tensor {shown(tensor)} is used by several NPU operators in different places: leave it in the arena.")
        place = places.pop() if places else None
        if place is None:
            rest.append(tensor)
        else:
            numbers[tensor] = FIRST_HOME + place
    # Operators have base pointers of their own, but here a number is one memory, and one register maps it to a port.
    owners: dict[int, str] = {}
    for tensor, number in numbers.items():
        if owners.setdefault(number, tensor) != tensor:
            raise InputError(
                f"Tensors {shown(owners[number])} and {shown(tensor)} would both be base pointer {number}, of different NPU operators: "
                "leave one of them in the arena."
            )
    following = _behind_operators(network)
    if _lacks_pointers(numbers, rest, following) and len({(one.memory, one.port) for one in memories.values()}) == 1:
        numbers, rest, following = {}, list(memories), FIRST_HOME
    shared: dict[str, tuple[int, int]] = {}
    found = [Home(tensor, number, memories[tensor].memory, memories[tensor].port) for tensor, number in numbers.items()]
    for tensor in rest:
        one = memories[tensor]
        number, address = shared.get(one.memory, (following + len(shared), 0))
        found.append(Home(tensor, number, one.memory, one.port, address))
        shared[one.memory] = number, address + round_up(network.graph.tensor(tensor).size, ALIGNMENT)
    _require_pointer(max((home.region for home in found), default=0), "The homes need", "leave some in the arena")
    yield from sorted(found, key=lambda home: (home.region, home.address))


def spill_home(network: Network, memory: str, port: int) -> Home:
    """The region for tensors between layers that a search moves to a memory, in addition to the network's homes; it is still empty.

    InputError if the NPU has no base pointer for it.
    """
    following = _behind_operators(network)
    others = {home.memory: home.region for home in network.homes if home.region >= following}
    region = others.get(memory, following + len(others))
    if region >= REGIONS and all((home.memory, home.port) == (memory, port) for home in network.homes):
        return Home("", FIRST_HOME, memory, port)
    _require_pointer(region, f"--spill {memory} needs", "leave the option out")
    return Home("", region, memory, port)


def _lacks_pointers(numbers: dict[str, int], rest: Sequence[str], following: int) -> bool:
    """Whether the NPU has too few base pointers for tensors with ``numbers`` of their own, and the ``rest`` in the ``following`` one."""
    return max((*numbers.values(), *((following,) if rest else ())), default=0) >= REGIONS


def _behind_operators(network: Network) -> int:
    """The first base pointer that no NPU job has for an input or an output."""
    return FIRST_HOME + max((len(segment.ports) for segment in network.segments), default=0)


def _require_pointer(region: int, needs: str, remedy: str) -> None:
    """InputError for a base pointer that the NPU does not have."""
    if region >= REGIONS:
        raise InputError(
            f"{needs} base pointer {region}: the NPU has 0 to {REGIONS - 1}, and operators hand on all inputs and outputs from "
            f"{FIRST_HOME} on; {remedy}."
        )


def _place(segment: Segment, tensor: str) -> int | None:
    """The position of a tensor among the inputs and then the outputs of an NPU job; None if no job gets it."""
    return next((place for place, port in enumerate(segment.ports) if port.tensor == tensor), None)


def on_ports(system: MemorySystem, homes: Iterable[Home]) -> MemorySystem:
    """The memory system with each home region on its port. Its name says so if that is another port than the arena's."""
    ports, said = list(system.region_ports), [system.name]
    for home in homes:
        if ports[home.region] != home.port:
            ports[home.region] = home.port
            said.append(f"region {home.region} in {system.ports[home.port].name}")
    return replace(system, region_ports=tuple(ports), name=", ".join(said)) if len(said) > 1 else system


def home_bytes(network: Network) -> int:
    """Bytes of the tensors that live outside the arena."""
    return sum(network.graph.tensor(home.tensor).size for home in network.homes)


def uses_home(part: EthosuPart) -> bool:
    """Whether a kernel reads or writes a tensor that lives outside the arena."""
    return any(feature_map.region >= FIRST_HOME for _, feature_map in part.maps)
