"""A camera that sends rows while the NPU runs: a ring of few rows instead of a frame buffer, on the NPU behind its registers.

The schedule is cut at row boundaries. For each command stream the host waits until the rows are in the ring that the stream reads, starts
the NPU through its registers, waits for the interrupt, and tells the camera which rows it may write over. The result is that of a run with
the whole image in memory, byte for byte.

python -m examples.streamed_camera
"""

from __future__ import annotations

import argparse
import sys

import numpy as np

import npu_testbed
from cascader.ethosu.codegen.lowering import lower
from examples import ended
from npu_model.command_stream import encode_operations
from npu_model.memory.system import MemorySystem
from npu_model.program import Program, RegionRole
from npu_model.programmer_registers import register_offsets
from npu_testbed.replays.simulation import simulate_schedule
from npu_testbed.replays.streaming import StreamCut, cut_for_stream, streamed_input
from sim.device import BufferBus, Device
from sim.functional import run

AT = register_offsets()
STREAM, CONSTANTS, ARENA, RING = 0x1000_0000, 0x2000_0000, 0x3000_0000, 0x4000_0000
RUN, CLEAR_IRQ, POWER = 1, 2, 0xC
LIMITS = 31 << 16 | 15 << 24
"""AXI limits of the core driver's defaults: 32 reads and 16 writes outstanding."""


class Camera:
    """A source that writes row y to place y mod R of a ring, as far as the host has freed the place."""

    def __init__(self, image: bytes, cut: StreamCut) -> None:
        self.ring = bytearray(cut.ring * cut.row_bytes)
        self._image, self._cut, self._sent = image, cut, 0

    def send(self, rows: int) -> None:
        """Write all rows before ``rows``."""
        size = self._cut.row_bytes
        for row in range(self._sent, rows):
            place = row % self._cut.ring
            self.ring[place * size : (place + 1) * size] = self._image[row * size : (row + 1) * size]
        self._sent = max(self._sent, rows)


def start(program: Program, system: MemorySystem, memories: dict[int, bytes | bytearray]) -> int:
    """Run one command stream on the NPU, as firmware starts it, and return its cycles."""
    stream = np.array(encode_operations(program.operations)[0], "<u4").tobytes()
    device = Device(program.accelerator, system, BufferBus({STREAM: stream, **memories}))

    def write(**values: int) -> None:
        for name, value in values.items():
            device.write(AT[name], value)

    ports = sum(2 * port << 2 * region for region, port in enumerate(system.region_ports))
    write(RESET=0, QCONFIG=2 * system.command_port, REGIONCFG=ports, **{f"AXI_LIMIT{index}": LIMITS for index in range(4)})
    write(BASEP0=CONSTANTS, BASEP2=ARENA, BASEP4=ARENA, BASEP6=RING, QBASE0=STREAM, QSIZE=len(stream))
    write(CMD=POWER | RUN)
    cycles = device.wait()
    write(CMD=POWER | CLEAR_IRQ)
    return cycles


def main() -> None:
    """Schedule a network, cut it for a camera, run it row by row, and compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "model", nargs="?", default="zoo:resnet8", help="a .tflite or zoo:NAME with one image as input (default: zoo:resnet8)"
    )
    parser.add_argument("pace", metavar="cycles", nargs="?", type=int, default=20_000, help="cycles from row to row (default: 20000)")
    given = parser.parse_args()
    plan = npu_testbed.schedule(given.model, home="input=ext", optimise="Size", effort="quick", no_advice=True).schedule
    cut, simulation = cut_for_stream(plan, "input"), simulate_schedule(plan)
    (port,), arena = plan.network.inputs, bytearray(plan.arena_size)
    image = np.random.default_rng(1).integers(port.dtype.minimum, port.dtype.maximum + 1, port.shape).astype(str(port.dtype))
    camera, cycles = Camera(image.tobytes(), cut), 0
    for number, program in enumerate(cut.network.programs):
        # The camera is as far ahead as it may be: whatever it overwrites must not be read any more.
        camera.send(max(cut.until[number], min(cut.rows, cut.low[number] + cut.ring)))
        content = next(region.content for region in program.regions if region.role is RegionRole.CONSTANTS)
        cycles += start(program, simulation.system, {CONSTANTS: content, ARENA: arena, RING: camera.ring})
    whole = run(lower(plan), [image])
    same = all(bytes(arena[one.address : one.address + one.size]) == whole[one.name].tobytes() for one in cut.network.outputs)
    found = streamed_input(plan, "input", given.pace, simulation.system, simulation.timing)
    pace = "one command stream reads all rows" if found.never_waits is None else f"it never waits for a row every {found.never_waits:,}"
    sys.stdout.write(
        f"{given.model}: {cut.rows} rows through a ring of {cut.ring} ({cut.ring * cut.row_bytes:,} of {image.nbytes:,} bytes), beside an "
        f"arena of {plan.arena_size:,} bytes\n"
        f"{len(cut.until)} command streams take {cycles:,} cycles; the outputs are {'the same' if same else 'WRONG'}\n"
        f"A row every {given.pace:,} cycles: the result is there {found.latency:,} cycles after the last row, the ring has {found.ring} "
        f"rows, and the NPU waits {found.waiting:,} cycles; {pace}\n"
    )
    if not same:
        sys.exit(1)


if __name__ == "__main__":
    sys.exit(ended(main))
