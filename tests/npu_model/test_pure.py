"""Without the compiled cores, or with stale ones: equal values, a search that decides by estimates, and `--version` says which run."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
from importlib.metadata import distributions
from pathlib import Path
from types import ModuleType

import pytest

from npu_model.native import PACKAGES, SWITCH, VERSION, cores_text, native, slow_sentence

ROOT = Path(__file__).parents[2]


def run(folder: Path, *words: str, pure: str) -> str:
    """Output of a command in a process with the switch at ``pure``."""
    environment = os.environ | {SWITCH: pure, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "npu_testbed", *words]
    return subprocess.run(command, cwd=folder, env=environment, check=True, capture_output=True, text=True).stdout


def test_every_package_with_c_sources_has_a_core() -> None:
    folders = [folder.parent for name in ("npu_model", "cascader", "sim") for folder in (ROOT / name).glob("**/native") if folder.is_dir()]
    assert sorted(PACKAGES) == sorted(".".join(folder.relative_to(ROOT).parts) for folder in folders)


@pytest.mark.parametrize("package", PACKAGES)
@pytest.mark.parametrize(("ci", "pure", "fails"), [("1", "", True), ("true", "", True), ("1", "1", False), ("", "", False)])
def test_a_core_that_is_missing_fails_the_tests_where_cores_are_asked_for(
    package: str,
    ci: str,
    pure: str,
    fails: bool,  # noqa: FBT001  # pytest passes it
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    settings = request.config.pluginmanager.get_plugin(str(ROOT / "tests" / "conftest.py"))
    monkeypatch.setattr(settings, "native", lambda name: None if name == package else ModuleType(name))
    monkeypatch.setenv("CI", ci)
    monkeypatch.setenv(SWITCH, pure)
    if not fails:
        settings.pytest_sessionstart()
        return
    with pytest.raises(pytest.UsageError, match=f"the compiled cores of {package} are missing: run `python setup.py build_ext"):
        settings.pytest_sessionstart()


def test_the_version_names_the_compiled_cores_that_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(SWITCH, raising=False)
    assert run(tmp_path, "--version", pure="").splitlines()[1:] == [cores_text()]
    assert run(tmp_path, "--version", pure="1").splitlines()[1:] == ["compiled cores: none, as NPU_TESTBED_PURE is set"]


def test_the_cores_that_are_installed_are_those_that_the_tests_import() -> None:
    """Tests import the packages of their own folder: beside an installed wheel they would all run on the Python forms, and none say so."""
    files = [file for found in distributions(name="npu-testbed") for file in found.files or ()]
    cores = [Path(str(file.locate())).resolve() for file in files if file.name.startswith("_native.")]
    ours = [ROOT.joinpath(*package.split(".")) for package in PACKAGES]
    assert [core for core in cores if core.parent not in ours] == [], "install the folder that is tested: pip install --editable ."


def test_no_core_that_the_tests_import_is_stale(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(SWITCH, raising=False)
    assert "of another version" not in cores_text()


@pytest.mark.parametrize("package", PACKAGES)
def test_a_core_is_reported_where_it_is_imported(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(SWITCH, raising=False)
    assert (package in re.split(r"[:,] ", cores_text().partition(";")[0])) == (native(package) is not None)


def cores(monkeypatch: pytest.MonkeyPatch, **versions: int | None) -> str:
    """The cores as a user is told, when those of ``versions`` alone are built, each with its version (None: it says none)."""
    found = {name: ModuleType("_native") for name in versions}
    for name, version in versions.items():
        if version is not None:
            monkeypatch.setattr(found[name], "VERSION", version, raising=False)
    monkeypatch.delenv(SWITCH, raising=False)
    monkeypatch.setattr("npu_model.native._built", lambda package: found.get(package.replace(".", "_")))
    return cores_text()


def test_a_core_that_was_not_built_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    said = cores(monkeypatch, npu_model=VERSION, cascader=VERSION, cascader_ethosu=VERSION)
    assert said == "compiled cores: npu_model, cascader, cascader.ethosu; not built: sim"
    assert cores(monkeypatch).startswith("compiled cores: none, as none was built")


def test_a_search_without_cores_says_that_it_will_be_slow_and_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("npu_model.native._built", lambda _package: None)
    monkeypatch.setenv(SWITCH, "1")
    assert SWITCH in (slow_sentence() or "")
    monkeypatch.delenv(SWITCH)
    assert f"of {len(PACKAGES)} compiled cores {len(PACKAGES)} are missing" in (slow_sentence() or "")


@pytest.mark.parametrize(
    ("checkout", "remedy"), [(True, "`pip install -e .`"), (False, "a binary wheel")], ids=["beside their sources", "installed"]
)
def test_what_builds_the_cores_depends_on_whether_the_packages_of_a_checkout_run(
    checkout: bool,  # noqa: FBT001  # a row of a table
    remedy: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """From a clone Python takes the packages of the clone, whatever is installed beside it."""
    monkeypatch.delenv(SWITCH, raising=False)
    monkeypatch.setattr("npu_model.native._built", lambda _package: None)
    assert "this checkout" in (slow_sentence() or "")
    monkeypatch.setattr("npu_model.native._is_checkout", lambda: checkout)
    assert remedy in (slow_sentence() or "")
    assert remedy in cores_text()


def test_a_search_with_every_core_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(SWITCH, raising=False)
    built = ModuleType("_native")
    monkeypatch.setattr(built, "VERSION", VERSION, raising=False)
    monkeypatch.setattr("npu_model.native._built", lambda _package: built)
    assert slow_sentence() is None


def test_a_command_that_searches_says_it_on_standard_error(tmp_path: Path) -> None:
    environment = os.environ | {SWITCH: "1", "PYTHONPATH": str(ROOT)}
    words = [sys.executable, "-m", "npu_testbed", "schedule", "zoo:tiny_conv", "--effort", "quick", "-o", "s.json"]
    made = subprocess.run(words, cwd=tmp_path, env=environment, check=True, capture_output=True, text=True)
    assert made.stderr.startswith("npu-testbed: note: This will be slow:")


def test_the_version_of_the_cores_is_one_in_c_and_in_python() -> None:
    header = (ROOT / "npu_model" / "flat.h").read_text()
    assert re.findall(r"^#define CORE_VERSION (\d+)$", header, re.MULTILINE) == [str(VERSION)]


def test_c_sources_that_change_have_a_new_version() -> None:
    """Else a core that was built before would be called with what it does not take."""
    sources = sorted(path for name in ("npu_model", "cascader", "sim") for kind in ("*.c", "*.h") for path in (ROOT / name).rglob(kind))
    lines = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.relative_to(ROOT).as_posix()}" for path in sources]
    digest = hashlib.sha256("\n".join(lines).encode()).hexdigest()
    known = json.loads((ROOT / "tests" / "native_digest.json").read_text())
    assert known == {"version": VERSION, "sha256": digest}, "raise CORE_VERSION and VERSION, and write both into tests/native_digest.json"


@pytest.mark.parametrize("package", PACKAGES)
def test_every_core_says_its_version(package: str) -> None:
    source = (ROOT.joinpath(*package.split(".")) / "native" / "module.c").read_text()
    assert "core_module(&" in source
    assert "PyModule_Create" not in source


def test_a_core_of_another_version_is_named_with_what_mends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    said = cores(monkeypatch, npu_model=VERSION, cascader=VERSION, cascader_ethosu=None, sim=VERSION - 1)
    stale = "of another version (build again with `python setup.py build_ext --inplace`)"
    assert said == f"compiled cores: npu_model, cascader; {stale}: cascader.ethosu, sim"
    said = cores(monkeypatch, npu_model=VERSION + 1)
    assert said == f"compiled cores: none; not built: cascader, cascader.ethosu, sim; {stale}: npu_model"


@pytest.mark.parametrize("text", ["", f"VERSION = {VERSION - 1}", f"VERSION = {VERSION + 1}", "VERSION = 'old'"])
def test_a_core_of_another_version_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.delenv(SWITCH, raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    for name, written in (("stale", text), ("fresh", f"VERSION = {VERSION}")):
        package = tmp_path / f"{name}_{tmp_path.name}"
        package.mkdir()
        (package / "__init__.py").touch()
        (package / "_native.py").write_text(written)
        assert (native(package.name) is not None) == (name == "fresh")


needs_cores = pytest.mark.skipif(native("cascader") is None, reason="the cores were not built, or are switched off: nothing to compare")

SEARCH = ("schedule", "zoo:tiny_conv", "--optimise", "Size", "--effort", "quick", "--jobs", "1", "-o")


def run_after(folder: Path, statement: str, *words: str) -> None:
    """Run a command in a process with the cores, after a statement of Python."""
    code = f"import sys; {statement}; from npu_testbed.__main__ import main; sys.exit(main())"
    environment = os.environ | {SWITCH: "", "PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, "-c", code, *words], cwd=folder, env=environment, check=True, capture_output=True)


@pytest.fixture(scope="module")
def pure(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, dict[str, object]]:
    """The schedule of a search on the Python forms, and what the search says of it."""
    folder = tmp_path_factory.mktemp("pure")
    said = json.loads(run(folder, *SEARCH, "s.json", "--json", pure="1"))
    return (folder / "s.json").read_bytes(), said


@needs_cores
def test_a_command_runs_on_the_python_forms_where_all_cores_are_stale(tmp_path: Path, pure: tuple[bytes, dict[str, object]]) -> None:
    run_after(tmp_path, "import npu_model.native as n; n.VERSION += 1", *SEARCH, "stale.json")
    assert (tmp_path / "stale.json").read_bytes() == pure[0]


@needs_cores
def test_a_search_by_estimates_finds_the_same_without_the_compiled_cores(tmp_path: Path, pure: tuple[bytes, dict[str, object]]) -> None:
    """The core of the replay is taken away on both sides: the Python forms of all others are equal to these."""
    run_after(tmp_path, "import sim.fast.compiled as c; c._CORE = None", *SEARCH, "compiled.json")
    assert (tmp_path / "compiled.json").read_bytes() == pure[0]


@needs_cores
def test_a_schedule_takes_as_long_without_the_compiled_cores(tmp_path: Path) -> None:
    run(tmp_path, *SEARCH, "s.json", pure="")
    compiled, python = (run(tmp_path, "simulate", "schedule", "s.json", "--json", pure=pure) for pure in ("", "1"))
    assert compiled == python


def test_a_search_without_the_replay_s_core_says_the_replayed_cycles_of_its_answer(
    tmp_path: Path, pure: tuple[bytes, dict[str, object]]
) -> None:
    (tmp_path / "s.json").write_bytes(pure[0])
    replayed = json.loads(run(tmp_path, "simulate", "schedule", "s.json", "--json", pure="1"))
    assert pure[1]["cycles"] == replayed["summary"]["cycles"]
