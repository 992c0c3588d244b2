"""Vela's estimate beside ours, column by column: proof that the baseline is known, and an alarm if Vela changes it."""

from __future__ import annotations

from dataclasses import dataclass

from cascader.frontends.vela.compiler import DEFAULT_MEMORY_MODE, DEFAULT_SYSTEM_CONFIG, compile_network
from npu_model.accelerator import DEFAULT_ACCELERATOR, Accelerator
from npu_model.accelerator import accelerator as find_accelerator
from validation.vela_estimate.database import Recorded, read_database
from validation.vela_estimate.estimate import Estimate, estimate_network
from validation.vela_estimate.memories import shipped_memories

CYCLE_COLUMNS = ("mac_cycles", "ao_cycles", "cmd_cycles")
"""Columns that must be within 1 cycle (Vela cuts floats to integers)."""


@dataclass(frozen=True, slots=True)
class ColumnRow:
    """One column of one operation: Vela's number and name of the operation, its operator, its value and ours.

    ``column`` is Vela's own name; ``ours`` is None if the operation is of a kind that is not reproduced.
    """

    number: str
    name: str
    operator: str
    column: str
    vela: int
    ours: int | None

    @property
    def is_equal(self) -> bool:
        """Whether both values are the same."""
        return self.ours == self.vela

    @property
    def is_within_one(self) -> bool:
        """Whether the values differ by at most 1."""
        return self.ours is not None and abs(self.ours - self.vela) <= 1


@dataclass(frozen=True, slots=True)
class Comparison:
    """What was compared and every column of every operation that Vela has estimated for the NPU, in schedule order."""

    accelerator: str
    optimise: str
    vela_version: str
    rows: tuple[ColumnRow, ...]


def estimate_columns(estimate: Estimate) -> dict[str, int]:
    """The estimate under the column names of Vela's debug database; a column that is not there is 0 or blank in Vela."""
    cycles, traffic = estimate.cycles, estimate.traffic
    columns = {"ao_cycles": cycles.ao, "cmd_cycles": cycles.command, "mac_count": cycles.macs}
    if cycles.mac is not None:
        columns["mac_cycles"] = cycles.mac
    columns |= {"npu_cycles": estimate.npu_cycles, "op_cycles": estimate.op_cycles}
    for suffix, values in (("ac", traffic.cycles), ("read", traffic.read), ("write", traffic.written)):
        columns |= {f"{memory.name}{access.value}_{suffix}": value for (memory, access), value in values.items()}
    return columns | {f"{memory.name}_ac": value for memory, value in traffic.total_cycles.items()}


def _rows(recorded: Recorded, estimate: Estimate | None) -> list[ColumnRow]:
    ours = None if estimate is None else estimate_columns(estimate)
    rows = []
    for column in dict.fromkeys((*recorded.columns, *(ours or {}))):
        vela, value = recorded.columns.get(column, 0), None if ours is None else ours.get(column, 0)
        # What both leave blank or 0 proves nothing.
        if vela or value:
            rows.append(ColumnRow(recorded.number, recorded.name, recorded.operator, column, vela, value))
    return rows


def compare_recorded(recorded: tuple[Recorded, ...], accelerator: Accelerator) -> tuple[ColumnRow, ...]:
    """Rows of the operations of one debug database, in its order."""
    estimates = estimate_network((entry.operation for entry in recorded), accelerator)
    return tuple(row for entry, estimate in zip(recorded, estimates, strict=True) for row in _rows(entry, estimate))


def compare(
    network: bytes,
    accelerator: str = DEFAULT_ACCELERATOR,
    optimise: str = "Performance",
    *,
    system_config: str = DEFAULT_SYSTEM_CONFIG,
    memory_mode: str = DEFAULT_MEMORY_MODE,
) -> Comparison:
    """Compile the .tflite ``network`` with the installed Vela and set its estimate beside ours.

    Names are those of Vela's options; memories are those of the ``vela.ini`` that it comes with. InputError as
    :func:`cascader.frontends.vela.compile_network`, and if the debug database is not that of Vela 5.2.
    """
    device = find_accelerator(accelerator)
    memories = shipped_memories(system_config, memory_mode)
    result = compile_network(network, device.name, optimise=optimise, system_config=system_config, memory_mode=memory_mode)
    return Comparison(device.name, optimise, result.version, compare_recorded(read_database(result, memories), device))
