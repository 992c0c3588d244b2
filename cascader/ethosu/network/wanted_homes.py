"""Requested homes: the memory of a tensor, and the memory that takes tensors from the arena, by their names in a memory system."""

from __future__ import annotations

from msgspec import Struct

from npu_model.errors import InputError
from npu_model.memory.system import Memory, MemorySystem
from npu_model.printable import printable, shown
from npu_model.program.region_numbers import ARENA


class Wanted(Struct, frozen=True):
    """A requested home: the memory at a port for ``what``: all inputs, all outputs, one input or output, or a tensor."""

    what: str
    memory: str
    port: int
    writable: bool = True


class Outer(Struct, frozen=True):
    """An outer memory that takes tensors from the arena, by its name and its port."""

    memory: str
    port: int


def wanted_home(text: str, system: MemorySystem) -> Wanted:
    """The home of ``WHAT=MEMORY``. The memory is named by its name in the system, or by its port axi0 or axi1.

    InputError if the text is no such pair or the system has no such memory.
    """
    what, equals, name = (piece.strip() for piece in text.rpartition("="))
    if not equals or not what or not name:
        raise InputError(f"--home {shown(text)} is not a home: write WHAT=MEMORY, such as input={system.ports[-1].name}.")
    port = _port_of(name, system)
    if port is None:
        known = " or ".join(f"{memory.name} (axi{port})" for port, memory in enumerate(system.ports))
        raise InputError(f"--home {shown(text)} names no memory of {system.name}: choose {known}.")
    memory = system.ports[port]
    return Wanted(what, memory.name, port, memory.writable)


def _port_of(name: str, system: MemorySystem) -> int | None:
    """The port of a memory by its name, or as axi0 or axi1; None if the system has no such memory."""
    spellings = ((port, (memory.name.lower(), f"axi{port}")) for port, memory in enumerate(system.ports))
    return next((port for port, names in spellings if name.strip().lower() in names), None)


def memory_beyond(system: MemorySystem) -> Memory | None:
    """The memory behind another port than the arena's; None if the arena has the only one."""
    return next((memory for port, memory in enumerate(system.ports) if port != system.port_of(ARENA)), None)


def outer_ends(system: MemorySystem) -> tuple[tuple[str, ...], ...]:
    """Each way in which inputs, outputs or both leave the arena for :func:`memory_beyond` it, as pairs WHAT=MEMORY of ``--home``."""
    beyond = memory_beyond(system)
    if beyond is None:
        return ()
    first, last = f"input={beyond.name}", f"output={beyond.name}"
    return ((first,), (last,), (first, last)) if beyond.writable else ((first,),)


def home_options(homes: tuple[str, ...]) -> str:
    """Pairs WHAT=MEMORY as options of the command line.

    >>> home_options(("input=ext", "output=ext"))
    '--home input=ext --home output=ext'
    """
    return " ".join(f"--home {printable(home)}" for home in homes)


def outer_memory(name: str, system: MemorySystem) -> Outer:
    """The memory to which a search may move tensors, by its name, or by its port axi0 or axi1.

    InputError if the system has no such memory, if it is the arena's memory, or if the NPU cannot write it.
    """
    port = _port_of(name, system)
    fitting = [memory.name for port, memory in enumerate(system.ports) if memory.writable and port != system.port_of(ARENA)]
    if port is None or system.ports[port].name not in fitting:
        known = f"choose {fitting[0]}" if fitting else "this system has none beside the arena's: leave the option out"
        raise InputError(f"--spill {shown(name)} names no memory of {system.name} that takes tensors from the arena: {known}.")
    return Outer(system.ports[port].name, port)
