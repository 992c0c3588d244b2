"""Vela's estimate and ours, column by column: proof that the baseline is known, and an alarm if Vela changes it."""

from __future__ import annotations

from collections import Counter

from msgspec import Struct

from cascader.frontends.vela.compiler import compile_network
from cascader.frontends.vela.compiler_options import DEFAULT_MEMORY_MODE, CompilerOptions
from cascader.frontends.vela.result import VelaSummary
from npu_model.accelerator import DEFAULT_ACCELERATOR, Accelerator
from npu_model.accelerator import accelerator as find_accelerator
from validation.vela.estimate.database import Recorded, read_database
from validation.vela.estimate.estimate import VelaEstimate, estimate_network
from validation.vela.estimate.memories import shipped_memories

NETWORK = "network"
"""Stands for the operator in the rows of the whole network."""


class ColumnRow(Struct, frozen=True):
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

    @property
    def is_cycles(self) -> bool:
        """Whether the column counts cycles; the others count bytes or multiply-accumulates."""
        return "cycles" in self.column or self.column.endswith("_ac")

    @property
    def holds(self) -> bool:
        """Whether the column is reproduced: cycles within 1, as Vela cuts floats to integers, all else exactly."""
        return self.is_within_one if self.is_cycles else self.is_equal


class EstimateComparison(Struct, frozen=True):
    """The case that was compared, and every column of every operation that Vela has estimated for the NPU, in schedule order.

    The last rows are the network's: the summary that Vela writes for it. ``network`` is what the caller calls it.
    """

    network: str
    accelerator: str
    optimise: str
    vela_version: str
    rows: tuple[ColumnRow, ...]


def estimate_columns(estimate: VelaEstimate) -> dict[str, int]:
    """The estimate under the column names of Vela's debug database; a column that is not there is 0 or blank in Vela."""
    cycles, traffic = estimate.cycles, estimate.traffic
    columns = {"ao_cycles": cycles.ao, "cmd_cycles": cycles.command, "mac_count": cycles.macs}
    if cycles.mac is not None:
        columns["mac_cycles"] = cycles.mac
    columns |= {"npu_cycles": estimate.npu_cycles, "op_cycles": estimate.op_cycles}
    for suffix, values in (("ac", traffic.cycles), ("read", traffic.read), ("write", traffic.written)):
        columns |= {f"{memory.name}{access.value}_{suffix}": value for (memory, access), value in values.items()}
    return columns | {f"{memory.name}_ac": value for memory, value in traffic.total_cycles.items()}


def _rows(recorded: Recorded, estimate: VelaEstimate | None) -> list[ColumnRow]:
    ours = None if estimate is None else estimate_columns(estimate)
    rows = []
    for column in dict.fromkeys((*recorded.columns, *(ours or {}))):
        vela, value = recorded.columns.get(column, 0), None if ours is None else ours.get(column, 0)
        # Columns that both leave blank or 0 prove nothing.
        if vela or value:
            rows.append(ColumnRow(recorded.number, recorded.name, recorded.operator, column, vela, value))
    return rows


def _network_rows(summary: VelaSummary, rows: tuple[ColumnRow, ...]) -> tuple[ColumnRow, ...]:
    """The summary's cycles and the sums of ours; None if an operation is missing in ours."""
    pairs = {
        "cycles_total": ("op_cycles", summary.cycles_total),
        "cycles_npu": ("npu_cycles", summary.cycles_npu),
        "cycles_sram_access": ("Sram_ac", summary.cycles_sram_access),
        "cycles_off_chip_flash_access": ("OffChipFlash_ac", summary.cycles_off_chip_flash_access),
    }
    complete = all(row.ours is not None for row in rows)
    sums = Counter[str]()
    for row in rows:
        sums[row.column] += row.ours or 0
    return tuple(
        ColumnRow("", NETWORK, NETWORK, column, vela, sums[ours] if complete else None)
        for column, (ours, vela) in pairs.items()
        if vela or sums[ours]
    )


def compare_recorded(recorded: tuple[Recorded, ...], accelerator: Accelerator) -> tuple[ColumnRow, ...]:
    """Rows of the operations of one debug database, in its order."""
    estimates = estimate_network((entry.operation for entry in recorded), accelerator)
    return tuple(row for entry, estimate in zip(recorded, estimates, strict=True) for row in _rows(entry, estimate))


def compare(
    network: bytes,
    accelerator: str = DEFAULT_ACCELERATOR,
    optimise: str = "Performance",
    *,
    name: str = "",
    system_config: str = "",
    memory_mode: str = DEFAULT_MEMORY_MODE,
) -> EstimateComparison:
    """Compile the .tflite ``network`` with the installed Vela and compare its estimate with ours.

    ``name`` is what the network is called in reports; the other names are those of Vela's options, and memories are
    those of the ``vela.ini`` that Vela comes with. InputError as :func:`cascader.frontends.vela.compile_network`, and if
    the debug database is not that of Vela 5.2.
    """
    device = find_accelerator(accelerator)
    options = CompilerOptions(device.name, optimise=optimise, system_config=system_config, memory_mode=memory_mode)
    memories = shipped_memories(options.system_config, memory_mode)
    result = compile_network(network, options)
    rows = compare_recorded(read_database(result, memories), device)
    return EstimateComparison(name, device.name, optimise, result.version, rows + _network_rows(result.summary, rows))
