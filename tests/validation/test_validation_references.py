from __future__ import annotations

import gzip
import hashlib
from pathlib import Path

import pytest
from reference_data import shared_data

from npu_model.accelerator import accelerator, accelerator_names
from npu_model.compiled.network import read_compiled
from npu_model.errors import InputError
from npu_model.program import KernelOperation
from npu_model.program.check import check_program
from validation.fvp.references import build
from validation.fvp.references.build import reference_files
from validation.fvp.references.records import measured_program, points, single_operators, stream_name, sweeps
from validation.fvp.references.stored import stored
from validation.fvp.scores import TOTAL_GRID, TOTAL_OVERHEAD
from validation.fvp.single import single_program

PACKAGE = Path(build.__file__).parent


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
    assert sum(path.stat().st_size for path in PACKAGE.rglob("*") if path.suffix in (".csv", ".gz")) < 190_000


def test_the_stored_programs_are_the_decoded_streams_that_were_measured() -> None:
    files = sorted((shared_data() / "fvp" / "streams").glob("*.tflite"))
    by_digest = {hashlib.sha256(path.read_bytes()).hexdigest(): path for path in files}
    assert len(by_digest) == 12
    for point in points():
        (program,) = read_compiled(by_digest[point.stream_sha256].read_bytes()).programs
        stored = measured_program(point.network, point.accelerator)
        assert stored.operations == program.operations
        assert stored.words == program.words
        assert [(r.index, r.role, r.size) for r in stored.regions] == [(r.index, r.role, r.size) for r in program.regions]


def test_the_package_data_are_what_the_records_give_today() -> None:
    for name, content in reference_files(shared_data() / "fvp").items():
        stored = (PACKAGE / name).read_bytes()
        # Compressed bytes may differ between versions of zlib; what they hold may not.
        assert (gzip.decompress(stored) == gzip.decompress(content)) if name.endswith(".gz") else (stored == content)


def test_a_stored_program_has_no_time_stamp() -> None:
    packed = stored(measured_program("rnnoise_INT8", "ethos-u55-32"))
    assert packed[4:8] == bytes(4)
    assert packed == stored(measured_program("rnnoise_INT8", "ethos-u55-32"))


def test_a_stream_that_is_not_the_measured_one_is_refused(tmp_path: Path) -> None:
    data = shared_data() / "fvp"
    for folder in ("streams", "old_cores"):
        (tmp_path / folder).mkdir()
    for path in (*data.glob("*.csv"), *data.glob("streams/*"), *data.glob("old_cores/*")):
        (tmp_path / path.relative_to(data)).write_bytes(path.read_bytes())
    next(iter(sorted((tmp_path / "streams").iterdir()))).write_bytes(b"something else")
    with pytest.raises(InputError, match=r"has the SHA-256 .* was measured: restore"):
        reference_files(tmp_path)


def test_a_missing_record_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"^u55_calibration.csv cannot be read \(No such file or directory\): give the folder"):
        reference_files(tmp_path)


def test_a_rebuild_writes_every_file_of_the_package(tmp_path: Path) -> None:
    build.main(["--data", str(shared_data() / "fvp"), "--output", str(tmp_path)])
    written = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file()}
    assert written == {path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*") if path.suffix in (".csv", ".gz")}
    assert f"streams/{stream_name('rnnoise_INT8', 'ethos-u55-32')}" in written
