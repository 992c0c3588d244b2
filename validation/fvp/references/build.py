"""Rebuilds the package data of the references from the published records and the compiled networks.

    python -m validation.fvp.references.build --data DIR [--output DIR]

DIR holds these records, each with the compiled networks that it names:

- ``u55_calibration.csv`` with ``streams/``, ``u55_small_kernels.csv`` with ``small_kernels/``, ``u55_old_cores.csv`` with ``old_cores/``;
- ``u55_memory_sweeps.csv``, ``sweeps_active.csv`` and ``single_operators.csv``;
- ``u65_calibration.csv`` and ``u65_off.csv`` with ``u65/``, ``u65_vww4.csv`` with ``u65_vww4/``;
- ``u85_calibration.csv`` and ``u85_ad.csv`` with the streams of the U85.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import hashlib
import io
import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from npu_model.accelerator import accelerator
from npu_model.compiled.network import read_compiled
from npu_model.cost.timed import forms_chains
from npu_model.errors import InputError
from npu_model.weight_stream.work import stream_work
from validation.fvp.references.records import (
    OLD_POINTS,
    OPERATORS,
    POINTS,
    SWEEPS,
    U65_POINTS,
    U85_POINTS,
    WHOLE_RUNS,
    stream_name,
    work_name,
)
from validation.fvp.references.stored import stored

_OPERATOR_SOURCE = "Apache TVM: tests/python/contrib/test_ethosu/cascader/test_ethosu_part_performance.py"
_NAMES = {"yolo-fastest_192_face_v4": "yolo_fastest_192_face", "vww4_128_128_INT8": "vww4_128", "ad_medium_int8": "ad_medium"}
"""Our names for networks whose published name belongs to another file."""


def _network(published: str) -> str:
    name = published.removesuffix(".tflite")
    return _NAMES.get(name, name)


def _read(path: Path) -> list[dict[str, str]]:
    try:
        return list(csv.DictReader(path.read_text(encoding="utf-8").splitlines()))
    except OSError as error:
        raise InputError(f"{path.name} cannot be read ({error.strerror}): give the folder of the published records.") from None


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise InputError(f"{path.name} cannot be read ({error.strerror}): give the folder of the published records.") from None


def _table(rows: Iterable[dict[str, str]]) -> bytes:
    """A CSV file with the columns of the first row, and with the same line ends on every system."""
    rows = list(rows)
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().encode()


def _point(row: dict[str, str]) -> dict[str, str]:
    return {
        "network": _network(row["model"]),
        "accelerator": row["accelerator"],
        "adapters": row["timing_adapters"],
        "npu_active": row["npu_active_cycles"],
        "npu_total": row["npu_total_cycles"],
        "axi0_read_beats": row["axi0_rd_beats"],
        "axi0_write_beats": row["axi0_wr_beats"],
        "axi1_read_beats": row["axi1_rd_beats"],
        "vela_cycles": row["vela_estimate_cycles"],
        "stream_sha256": row["stream_sha256"],
        "platform": row["platform"].partition(",")[0],
        "source": row["source"],
    }


def _deep_point(row: dict[str, str]) -> dict[str, str]:
    """A row of the U85, whose counters belong to the memories."""
    ports = {"axi0_rd": "sram_rd", "axi0_wr": "sram_wr", "axi1_rd": "ext_rd"}
    point = _point(row | {f"{ours}_beats": row[f"{theirs}_beats"] for ours, theirs in ports.items()})
    columns = list(point)
    place = columns.index("axi1_read_beats") + 1
    values = point | {"axi1_write_beats": row["ext_wr_beats"]}
    return {name: values[name] for name in (*columns[:place], "axi1_write_beats", *columns[place:])}


def _point_order(row: dict[str, str]) -> tuple[bool, str, int]:
    return row["adapters"] == "off", row["network"], int(row["accelerator"].rpartition("-")[2])


def _like(row: dict[str, str], known: Iterable[dict[str, str]]) -> dict[str, str]:
    """A row for a run whose stream also has a row among the ``known``, with the digest and the estimate of that row."""
    (same,) = (other for other in known if other["stream"] == row["stream"])
    return row | {key: same[key] for key in ("stream_sha256", "vela_estimate_cycles")}


def _old(row: dict[str, str], data: Path) -> dict[str, str]:
    """The row of an older stream, for which only the bytes are known; its name includes its Vela."""
    digest = hashlib.sha256(_bytes(data / row["stream"])).hexdigest()
    known = {"stream_sha256": digest, "vela_estimate_cycles": "0"}
    names = {
        "model": f"{_network(row['model'])}.vela{row['vela_version'].replace('.', '')}",
        "platform": "Corstone-300 FVP of 2021-22",
        "source": f"Arm ml-embedded-evaluation-kit docs/use_cases; stream made with Vela {row['vela_version']}, all beats as published",
    }
    return row | known | names


def _whole_run(row: dict[str, str]) -> dict[str, str]:
    return {
        "network": Path(row["stream"]).name.partition(".")[0],
        "accelerator": row["accelerator"],
        "optimise": row["optimise"],
        "npu_total": row["npu_total_cycles"],
        "axi0_read_beats": row["axi0_rd_beats"],
        "axi0_write_beats": row["axi0_wr_beats"],
        "axi1_read_beats": row["axi1_rd_beats"],
        "stream_sha256": row["stream_sha256"],
        "source": row["source"],
    }


def _sweep(row: dict[str, str]) -> dict[str, str]:
    return {
        "network": _network(row["model"]),
        "accelerator": row["accelerator"],
        "knob": row["knob"],
        "sram_cap": row["sram_bwcap_words_per_4000"],
        "ext_latency": row["ext_read_latency"],
        "ext_cap": row["ext_bwcap_words_per_400"],
        "npu_total": row["npu_total_cycles"],
        "source": row["source"],
        "npu_active": "",
    }


_U65_SWEEPS = {"SRAM BWCAP 2000": "2000", "SRAM BWCAP 0 (no cap)": "0"}
"""Knobs of the further sweeps of the U65, and the cap of each."""

_U65_SOURCE = "Kwon-GiHwan/mps4_prototyping_board"


def _sweeps(data: Path) -> list[dict[str, str]]:
    """The sweeps, with NPU ACTIVE if known, including the U65's."""
    rows, further = [_sweep(row) for row in _read(data / "u55_memory_sweeps.csv")], _read(data / "sweeps_active.csv")
    for row in further:
        if row["npu_active_cycles"]:
            found = [one for one in rows if one["npu_total"] == row["npu_total_cycles"] and one["network"] == _network(row["model"])]
            for one in found:
                one["npu_active"] = row["npu_active_cycles"]
            continue
        cap = _U65_SWEEPS[row["knob"]]
        settings = {"knob": "sram_bwcap", "sram_cap": cap, "ext_latency": "500", "ext_cap": "1172"}
        names = {"network": _network(row["model"]), "accelerator": row["accelerator"]}
        rows.append(names | settings | {"npu_total": row["npu_total_cycles"], "source": _U65_SOURCE, "npu_active": ""})
    return rows


def _operator(row: dict[str, str]) -> dict[str, str]:
    return {
        "accelerator": row["accelerator"],
        "operator": row["operator"].removesuffix("_conv2d"),
        "kernel": f"{row['kernel_h']}x{row['kernel_w']}",
        "stride": f"{row['stride_h']}x{row['stride_w']}",
        "padding": "x".join(row["pad_tlbr"].split()),
        "ifm": "x".join(row["ifm_nhwc"].split()[1:]),
        "ofm": "x".join(row["ofm_nhwc"].split()[1:]),
        "block": "x".join(row["ofm_block_hwd"].split()),
        "cycles": row["cycles"],
        "source": _OPERATOR_SOURCE,
    }


def work_files(compiled: bytes) -> list[bytes]:
    """The decoder's work for the weight streams of each Program of a compiled network, as JSON by operation index, gzipped.

    Empty for an accelerator whose kernels form chains, because its timing does not depend on it.
    """
    files = []
    for program in read_compiled(compiled).programs:
        device = accelerator(program.accelerator)
        if forms_chains(device):
            files.append(b"")
            continue
        work = stream_work(program, device)
        table = {index: [[core.bits, core.turns] for core in cores] for index, cores in work.items()}
        files.append(gzip.compress(json.dumps(table, separators=(",", ":")).encode(), mtime=0))
    return files


def _streams(data: Path, calibration: Iterable[dict[str, str]], named: Callable[[dict[str, str]], str]) -> dict[str, bytes]:
    """Programs and the decoder's work by name; InputError if a stream is not the measured one."""
    files = {}
    for row in calibration:
        network = named(row)
        compiled = _bytes(data / row["stream"])
        digest = hashlib.sha256(compiled).hexdigest()
        if digest != row["stream_sha256"]:
            raise InputError(f"{row['stream']} has the SHA-256 {digest} but {row['stream_sha256']} was measured: restore the file.")
        for number, (program, work) in enumerate(zip(read_compiled(compiled).programs, work_files(compiled), strict=True)):
            files[f"streams/{stream_name(network, row['accelerator'], number)}"] = stored(program)
            if work:
                files[f"streams/{work_name(network, row['accelerator'], number)}"] = work
    return files


def reference_files(data: Path) -> dict[str, bytes]:
    """Contents of the package data by relative path, from the records in ``data``; InputError if one is missing or differs."""
    names = "u55_calibration.csv", "u55_small_kernels.csv", "u65_calibration.csv"
    calibration, small, wide = (_read(data / name) for name in names)
    off = [_like(row, wide) for row in _read(data / "u65_off.csv")]
    vww4 = [row | {"vela_estimate_cycles": "0"} for row in _read(data / "u65_vww4.csv")]
    deep = [row for name in ("u85_calibration.csv", "u85_ad.csv") for row in _read(data / name)]
    old = [_old(row, data) for row in _read(data / "u55_old_cores.csv")]
    return {
        POINTS: _table(sorted((_point(row) for row in calibration), key=_point_order)),
        U65_POINTS: _table(sorted((_point(row) for row in (*wide, *off, *vww4)), key=_point_order)),
        U85_POINTS: _table(sorted((_deep_point(row) for row in deep), key=_point_order)),
        OLD_POINTS: _table(sorted((_point(row) for row in old), key=_point_order)),
        SWEEPS: _table(_sweeps(data)),
        OPERATORS: _table(_operator(row) for row in _read(data / "single_operators.csv")),
        WHOLE_RUNS: _table(map(_whole_run, small)),
        **_streams(data, calibration, lambda row: _network(row["model"])),
        **_streams(data, (*wide, *vww4), lambda row: _network(row["model"])),
        **_streams(data, deep, lambda row: _network(row["model"])),
        **_streams(data, old, lambda row: row["model"]),
        **_streams(data, small, lambda row: ".".join(Path(row["stream"]).name.split(".")[:2])),
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the files next to this module, or into ``--output``."""
    parser = argparse.ArgumentParser(prog="python -m validation.fvp.references.build", description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, required=True, help="folder of the published records")
    parser.add_argument("--output", type=Path, default=Path(__file__).parent, help="folder to write (default: this package)")
    options = parser.parse_args(arguments)
    for name, content in reference_files(options.data).items():
        path = options.output / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


if __name__ == "__main__":
    main()
