"""A driver in Python for tests: it programs a device as Arm's core driver does and binds a compiled network to a bus."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from npu_model.command_stream import encode_operations
from npu_model.compiled.network import CompiledNetwork
from npu_model.memory.system import MemorySystem
from npu_model.program import Program, RegionRole
from npu_model.programmer_registers import register_offsets
from sim.device import BufferBus, Device
from sim.functional.regions import numpy_dtype

AT = register_offsets()
STREAM, CONSTANTS, ARENA = 0x1000_0000, 0x2000_0000, 0x3000_0000
RUN, CLEAR_IRQ, STOP_REQUEST, POWER = 1, 2, 1 << 4, 0xC
LIMITS = 31 << 16 | 15 << 24
"""32 reads and 16 writes outstanding, of 64 bytes: the core driver's."""
LONG_BURSTS = 2
STATE, IRQ, BUS, PARSE, END = 1, 2, 4, 16, 32


def words_of(program: Program) -> bytes:
    """The register command stream."""
    return np.array(encode_operations(program.operations)[0], "<u4").tobytes()


@dataclass
class Bound:
    """A program in memory behind a device."""

    device: Device
    bus: BufferBus
    stream: bytes
    arena: bytearray

    def write(self, **values: int) -> None:
        for name, value in values.items():
            self.device.write(AT[name], value)

    def read(self, name: str) -> int:
        return self.device.read(AT[name])

    def program_queue(self, size: int | None = None) -> None:
        self.write(QBASE0=STREAM, QSIZE=len(self.stream) if size is None else size)

    def start(self) -> None:
        self.program_queue()
        self.write(CMD=POWER | RUN)


def bind(program: Program, system: MemorySystem, stream: bytes, arena: bytearray, burst: int = LONG_BURSTS) -> Bound:
    """Bind and initialise as the core driver does: region 0 to AXI1, all others to AXI0, as ``system`` has them."""
    constants = next((region.content for region in program.regions if region.role is RegionRole.CONSTANTS), b"")
    bus = BufferBus({STREAM: stream, CONSTANTS: constants or bytes(16), ARENA: arena})
    device = Device(program.accelerator, system, bus)
    bound = Bound(device, bus, stream, arena)
    ports = system.region_ports
    bound.write(RESET=0, QCONFIG=2 * system.command_port, REGIONCFG=sum(2 * port << 2 * region for region, port in enumerate(ports)))
    for index in range(4):
        bound.write(**{f"AXI_LIMIT{index}": LIMITS | burst})
    bases = {0: CONSTANTS, 1: ARENA, 2: ARENA}
    for region, base in bases.items():
        bound.write(**{f"BASEP{2 * region}": base})
    return bound


def random_inputs(network: CompiledNetwork, seed: int = 1) -> list[NDArray[np.generic]]:
    """Values of the network's inputs."""
    generator = np.random.default_rng(seed)
    return [np.frombuffer(generator.bytes(binding.size), numpy_dtype(binding.dtype)).reshape(binding.shape) for binding in network.inputs]
