"""The summary of a compilation in the lines that Vela prints, which scripts look for, with the figures of our replay."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from npu_model.printable import printable
from npu_testbed.compilation.layers_csv import Row
from npu_testbed.compilation.traffic import KINDS

_KIB, _MIB = 1 << 10, 1 << 20
_TARGET, _OPERATOR, _NAME = 2, 1, -1
"""Columns of the per-layer table."""


def _fields(row: Mapping[str, Any]) -> Iterator[str]:
    yield f"Accelerator configuration        {row['accelerator_configuration']:>20}"
    yield f"System configuration             {row['system_config']:>20}"
    yield f"Memory mode                      {row['memory_mode']:>20}"
    yield f"Accelerator clock                        {int(row['core_clock'] / 1e6):12d} MHz"


def _operators(table: Sequence[Row], *, named: bool) -> Iterator[str]:
    for target in ("CPU", "NPU"):
        rows = [row for row in table if row[_TARGET] == target]
        yield f"{target} operators = {len(rows)} ({len(rows) / max(len(table), 1):4.1%})"
        if named:
            yield from (f"   {target}: {row[_OPERATOR]} = {printable(str(row[_NAME]))}" for row in rows)


def _traffic(row: Mapping[str, Any], kind: str) -> Iterator[str]:
    label, total = f"{KINDS[kind]} bandwidth", row[f"{kind}_total_bytes"]
    weights = row[f"{kind}_weight_read_bytes"] + row[f"{kind}_weight_write_bytes"]
    yield f"Average {label:25}        {total * row['inferences_per_second'] / _MIB / 1000:12.2f} GB/s"
    yield f"Input   {label:25}        {row[f'{kind}_feature_map_read_bytes'] / _MIB:12.2f} MB/batch"
    yield f"Weight  {label:25}        {weights / _MIB:12.2f} MB/batch"
    yield f"Output  {label:25}        {row[f'{kind}_feature_map_write_bytes'] / _MIB:12.2f} MB/batch"
    yield f"Total   {label:25}        {total / _MIB:12.2f} MB/batch"
    yield f"Total   {label:25} per input {total / _MIB:9.2f} MB/inference (batch size 1)"


def _cycles(row: Mapping[str, Any]) -> Iterator[str]:
    yield "Info: The numbers below are those of npu-testbed's replay."
    yield ""
    yield f"Network Tops/s                           {row['nn_tops']:12.2f} Tops/s"
    yield ""
    columns = {"NPU": "npu", **{f"{KINDS[kind]} Access": f"{kind}_access" for kind in KINDS}, "Total": "total"}
    yield from (f"{f'{name} cycles':30}           {row[f'cycles_{column}']:12d} cycles/batch" for name, column in columns.items())
    yield ""
    milliseconds, rate = row["inference_time"] * 1000, row["inferences_per_second"]
    yield f"Batch Inference time              {milliseconds:7.2f} ms, {rate:7.2f} inferences/s (batch size 1)"


def vela_summary_text(row: Mapping[str, Any], table: Sequence[Row], *, cycles: bool = False, operators: bool = False) -> str:
    """Vela's lines for its summary ``row`` and for its per-layer ``table``.

    ``cycles`` are the lines of ``--verbose-cycle-estimate``, ``operators`` the names of ``--show-cpu-operations``.
    """
    moved = [kind for kind in KINDS if row[f"{kind}_total_bytes"]]
    lines = [f"Network summary for {printable(str(row['network']))}", *_fields(row)]
    lines += [f"Design peak {f'{KINDS[kind]} bandwidth':25}    {row[f'{kind}_bandwidth']:12.2f} GB/s" for kind in moved]
    lines.append("")
    used = [kind for kind in KINDS if row[f"{kind}_memory_used"]]
    lines += [f"Total {f'{KINDS[kind]} used':25}          {row[f'{kind}_memory_used']:12.2f} KiB" for kind in used]
    lines += ["", *_operators(table, named=operators), ""]
    for kind in moved:
        lines += [*_traffic(row, kind), ""]
    lines += [f"Original Weights Size                    {row['total_original_weights'] / _KIB:12.2f} KiB"]
    lines += [f"NPU Encoded Weights Size                 {row['total_npu_encoded_weights'] / _KIB:12.2f} KiB", ""]
    lines += [f"Neural network macs                      {row['nn_macs']:12d} MACs/batch"]
    return "\n".join([*lines, *(["", *_cycles(row)] if cycles else [])])
