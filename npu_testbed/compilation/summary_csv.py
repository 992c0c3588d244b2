"""The summary of a compilation in the columns of Vela's ``NAME_summary_CONFIG.csv``, with the figures of our replay."""

from __future__ import annotations

from npu_model.memory.outer_arena import ARENA, CONSTANTS
from npu_model.memory.system import MemorySystem
from npu_model.program import ByteRange, DmaOperation, KernelOperation, Program, RegionRole
from npu_model.tflite.model import TfliteModel
from npu_testbed.compilation.traffic import KINDS, access_cycles, class_bytes, cycles_per_word, memory_kind
from npu_testbed.replays.simulation import Simulation
from sim import Beats

UNBOUNDED = 1 << 32
"""The size that Vela writes for an unbounded arena."""

_KIB = 1024
_GIB = 1 << 30
_CLASSES = ("feature_map_read", "feature_map_write", "weight_read", "weight_write", "total")
_WEIGHTED = ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED", "TRANSPOSE_CONV")
_WEIGHTS = 1
"""The number of the input with the weights, for these operators."""


def _bandwidths(system: MemorySystem, word: int) -> dict[str, float]:
    """GiB/s by the kind of memory; 0 for a kind that the system lacks."""
    found = dict.fromkeys(KINDS, 0.0)
    for port in sorted(set(system.region_ports), reverse=True):
        memory = system.ports[port]
        found[memory_kind(memory)] = float(word / cycles_per_word(memory) * system.clock_hz / _GIB)
    return found


def constants_kind(system: MemorySystem) -> str:
    """The memory that stores the constants. If constants share the arena's memory, it is the flash next to it, as Vela says."""
    kind = memory_kind(system.ports[system.port_of(CONSTANTS)])
    return "on_chip_flash" if kind == memory_kind(system.ports[system.port_of(ARENA)]) == "sram" else kind


def original_weights(model: TfliteModel) -> int:
    """Bytes of the constant weights of convolutions and fully connected layers, each tensor once."""
    found = {operator.inputs[_WEIGHTS] for operator in model.operators if operator.code in _WEIGHTED and len(operator.inputs) > _WEIGHTS}
    return sum(len(model.tensors[index].data) for index in found if index >= 0)


def _origin(where: ByteRange, copies: list[DmaOperation]) -> ByteRange | None:
    """The source of the last copy that covers a whole range of bytes; None if no copy does."""
    for copy in reversed(copies):
        offset = where.start - copy.destination
        if copy.destination_region == where.region and offset >= 0 and offset + where.length <= copy.length:
            start = copy.source.start + offset
            return ByteRange(copy.source.region, start, start + where.length)
    return None


def encoded_weights(programs: tuple[Program, ...]) -> int:
    """Bytes of the weight streams among the constants that kernels read there, or read from copies."""
    found: set[tuple[int, int]] = set()
    for program in programs:
        constants = {region.index for region in program.regions if region.role is RegionRole.CONSTANTS}
        copies: list[DmaOperation] = []
        for op in program.operations:
            if isinstance(op, DmaOperation):
                copies += [] if op.to_shram else [op]
            elif isinstance(op, KernelOperation):
                read = (where if where.region in constants else _origin(where, copies) for where in op.weights)
                found.update((where.start, where.end) for where in read if where is not None)
    size = end = 0
    for first, last in sorted(found):
        size += max(last - max(first, end), 0)
        end = max(end, last)
    return size


def summary_row(
    simulation: Simulation, model: TfliteModel, name: str, configuration: tuple[str, str], arena_cache_size: int | None, layers: int
) -> dict[str, object]:
    """The columns of the summary, in Vela's order; ``configuration`` is the system config and the memory mode.

    As in Vela's file, memory is in KiB and bandwidth in GiB/s. The cycles are the replay's. The cycles of a memory are the fewest that can
    move its bytes.
    """
    replay, system, device = simulation.replay, simulation.system, simulation.device
    seconds = replay.cycles / system.clock_hz
    used = dict.fromkeys(KINDS, 0)
    used[memory_kind(system.ports[system.port_of(ARENA)])] += simulation.planned_bytes
    programs = simulation.network.programs
    used[constants_kind(system)] += max((r.size for p in programs for r in p.regions if r.role is RegionRole.CONSTANTS), default=0)
    macs = sum(op.macs for program in programs for op in program.kernels)
    moved, access = class_bytes(replay), access_cycles(sum((one.beats for one in replay.replays), Beats()), system)
    bandwidths = _bandwidths(system, device.port_bytes_per_cycle)
    return {
        "experiment": "default",
        "network": name,
        "accelerator_configuration": device.name.replace("-", "_").capitalize().replace("_u", "_U"),
        "system_config": configuration[0],
        "memory_mode": configuration[1],
        "core_clock": float(system.clock_hz),
        "arena_cache_size": (arena_cache_size or UNBOUNDED) / _KIB,
        **{f"{kind}_bandwidth": bandwidths[kind] for kind in KINDS},
        "weights_storage_area": KINDS[constants_kind(system)],
        "feature_map_storage_area": KINDS[memory_kind(system.ports[system.port_of(ARENA)])],
        "inferences_per_second": 1 / seconds if seconds else 0.0,
        "batch_size": 1,
        "inference_time": seconds,
        "passes_before_fusing": layers,
        "passes_after_fusing": layers,
        **{f"{kind}_memory_used": used[kind] / _KIB for kind in KINDS},
        "total_original_weights": original_weights(model),
        "total_npu_encoded_weights": encoded_weights(programs),
        **{f"{kind}_{what}_bytes": getattr(moved[kind], what) for kind in KINDS for what in _CLASSES},
        "nn_macs": macs,
        "nn_tops": 2 * macs / seconds / 1e12 if seconds else 0.0,
        "cycles_npu": replay.cycles,
        **{f"cycles_{kind}_access": access[kind] for kind in KINDS},
        "cycles_total": replay.cycles,
    }
