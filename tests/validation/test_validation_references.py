from __future__ import annotations

import csv
import hashlib
import lzma
from pathlib import Path

from msgspec.structs import astuple
from reference_data import shared_data

from npu_model.accelerator import accelerator, accelerator_names
from npu_model.compiled.network import read_compiled
from npu_model.program import KernelOperation
from npu_model.program.check import check_program
from validation.fvp import references
from validation.fvp.references.records import (
    MeasuredBeats,
    ReferencePoint,
    WholeRun,
    measured_parts,
    measured_program,
    old_points,
    points,
    read_stored,
    read_stored_work,
    single_operators,
    stored,
    stored_work,
    sweeps,
    u65_points,
    u85_points,
    whole_runs,
)
from validation.fvp.scores import TOTAL_GRID, TOTAL_OVERHEAD
from validation.fvp.single import single_program

PACKAGE = Path(references.__file__).parent


def test_three_networks_were_measured_on_four_configurations_with_adapters_on_and_off() -> None:
    keys = {(p.network, p.accelerator, p.adapters) for p in points()}
    assert len(points()) == len(keys) == 24
    assert {p.accelerator for p in points()} == set(accelerator_names("u55"))
    assert {p.network for p in points()} == {"kws_micronet_m", "rnnoise_INT8", "yolo_fastest_192_face"}


def test_beats_are_published_exactly_where_the_adapters_are_on() -> None:
    assert all((p.beats is not None) == p.adapters for p in points())


def test_total_is_active_and_15_cycles_rounded_up_to_a_grid_of_1000() -> None:
    assert all(TOTAL_OVERHEAD <= p.total - p.active < TOTAL_OVERHEAD + TOTAL_GRID for p in points())
    assert max(p.total - p.active for p in points()) == TOTAL_OVERHEAD + TOTAL_GRID - 1
    assert len({(p.network, p.total % TOTAL_GRID) for p in points()}) == 3


def test_every_record_names_its_source() -> None:
    assert all(p.source for p in points())
    assert all(s.source for s in sweeps())
    assert all(o.source for o in single_operators())


def test_a_sweep_that_changes_nothing_is_the_calibration_point_itself() -> None:
    totals = {(p.network, p.accelerator): p.total for p in points() if p.adapters}
    unchanged = [s for s in sweeps() if (s.sram_cap, s.ext_latency, s.ext_cap) == (4000, 64, 50)]
    assert len(unchanged) == 2
    assert all(s.total == totals[s.network, s.accelerator] for s in unchanged)


def test_the_measured_programs_keep_the_rules_of_their_accelerators() -> None:
    for network, name in {(p.network, p.accelerator) for p in points()}:
        program = measured_program(network, name)
        assert program.accelerator == name
        assert program.kernels
        check_program(program, accelerator(name))


def test_the_single_operators_are_programs_that_keep_the_rules() -> None:
    for single in single_operators():
        program = single_program(single)
        check_program(program, accelerator(single.accelerator))
        (op,) = program.kernels
        assert isinstance(op, KernelOperation)
        assert op.ofm.shape == single.ofm
        assert (op.block.height, op.block.depth) == (single.block.height, single.block.depth)


def test_the_package_data_stay_under_190_kilobytes() -> None:
    assert sum(path.stat().st_size for path in PACKAGE.rglob("*") if path.suffix in (".csv", ".gz", ".xz")) < 190_000


_FILES = (
    *("u55_calibration", "u55_small_kernels", "u65_calibration", "u65_off", "u65_vww4"),
    *("u85_calibration", "u85_ad", "u55_old_cores"),
)


def rows_of(name: str) -> list[dict[str, str]]:
    return list(csv.DictReader((shared_data() / "fvp" / f"{name}.csv").read_text(encoding="utf-8").splitlines()))


def published() -> dict[tuple[str, str], list[dict[str, str]]]:
    """The published rows by their stream's digest and their adapters."""
    found: dict[tuple[str, str], list[dict[str, str]]] = {}
    data = shared_data() / "fvp"
    for name in _FILES:
        for row in rows_of(name):
            digest = hashlib.sha256((data / row["stream"]).read_bytes()).hexdigest()
            assert row.get("stream_sha256", digest) == digest
            found.setdefault((digest, row["timing_adapters"]), []).append(row)
    return found


def counted(row: dict[str, str], *names: str) -> tuple[int | None, ...]:
    return tuple(int(row[name]) if row.get(name) else None for name in names)


def test_the_figures_of_the_package_are_the_published_ones() -> None:
    rows = published()
    every: list[ReferencePoint | WholeRun] = [*points(), *u65_points(), *u85_points(), *old_points(), *whole_runs()]
    for point in every:
        adapters = "on" if getattr(point, "adapters", True) else "off"
        (row,) = rows.pop((point.stream_sha256, adapters))
        assert (getattr(point, "active", None), point.total) == counted(row, "npu_active_cycles", "npu_total_cycles")
        beats = point.beats or MeasuredBeats(None, None, None)  # type: ignore[arg-type]  # as a row without beats has them
        ports = ("sram_rd", "sram_wr", "ext_rd", "ext_wr") if "u85" in point.accelerator else ("axi0_rd", "axi0_wr", "axi1_rd", "axi1_wr")
        assert astuple(beats) == counted(row, *(f"{port}_beats" for port in ports))
    assert not rows


def test_the_sweeps_and_the_single_operators_of_the_package_are_the_published_ones() -> None:
    assert [sweep.total for sweep in sweeps()][:10] == [int(row["npu_total_cycles"]) for row in rows_of("u55_memory_sweeps")]
    active = {(int(row["npu_total_cycles"]), int(row["npu_active_cycles"] or 0) or None) for row in rows_of("sweeps_active")}
    assert {(sweep.total, sweep.active) for sweep in sweeps() if sweep.active or "u65" in sweep.accelerator} == active
    assert [single.cycles for single in single_operators()] == [int(row["cycles"]) for row in rows_of("single_operators")]


def test_the_stored_programs_are_the_decoded_streams_that_were_measured() -> None:
    for (digest, _), (row,) in published().items():
        every: list[tuple[ReferencePoint | WholeRun, str]] = [
            (point, point.network) for point in (*points(), *u65_points(), *u85_points(), *old_points())
        ]
        every += [(run, run.stream) for run in whole_runs()]
        names = {(network, point.accelerator) for point, network in every if point.stream_sha256 == digest}
        (name,) = names
        programs = read_compiled((shared_data() / "fvp" / row["stream"]).read_bytes()).programs
        parts = measured_parts(*name)
        assert [lzma.decompress(stored(program)) for program, _ in parts] == [lzma.decompress(stored(program)) for program in programs]
        works = [work for _, work in parts if work]
        assert works in ([], [read_stored_work(stored_work(program)) for program in programs])
        assert bool(works) is not ("u85" in row["accelerator"])


def test_equal_programs_have_equal_files() -> None:
    program = measured_program("rnnoise_INT8", "ethos-u55-32")
    assert stored(program) == stored(read_stored(stored(program)))
