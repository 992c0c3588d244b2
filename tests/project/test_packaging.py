"""The package: what a wheel must hold, and what it must declare."""

from __future__ import annotations

import ast
import fnmatch
import importlib
import os
import re
import subprocess
import sys
import tarfile
import zipfile
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest

from npu_testbed import VERSION

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[2]
PACKAGES = ("npu_model", "cascader", "sim", "validation", "npu_testbed")
IMPORT_NAMES = {"ethosu": "ethos-u-vela", "ai_edge_litert": "ai-edge-litert"}
"""Import names that are not the name of their distribution."""


def project() -> Any:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def sources() -> list[Path]:
    return [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]


def imported(path: Path) -> set[str]:
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            names.add(node.module)
    return {name.partition(".")[0] for name in names}


def test_everything_that_is_imported_is_declared() -> None:
    declared = project()["project"]["dependencies"] + [d for extra in project()["project"]["optional-dependencies"].values() for d in extra]
    names = {re.split(r"[<>=;\[ ]", requirement)[0] for requirement in declared}
    used = {name for path in sources() for name in imported(path)} - set(PACKAGES) - set(sys.stdlib_module_names) - {"tomllib"}
    assert {IMPORT_NAMES.get(name, name) for name in used} <= names


def test_every_data_file_is_package_data() -> None:
    patterns = project()["tool"]["setuptools"]["package-data"]["*"]
    listed = subprocess.run(["git", "ls-files", *PACKAGES], cwd=ROOT, capture_output=True, text=True, check=False).stdout.split()
    if not listed:
        pytest.skip("the sources are not in a git repository")
    data = [name for name in listed if not name.endswith(".py")]
    assert data
    assert [name for name in data if not any(fnmatch.fnmatch(Path(name).name, pattern) for pattern in patterns)] == []


def test_every_package_of_ours_has_an_init_file() -> None:
    folders = {path.parent for path in sources()}
    assert [str(folder) for folder in sorted(folders) if not (folder / "__init__.py").is_file()] == []


def test_every_generic_module_of_the_cascader_is_under_the_contract_that_it_knows_no_npu() -> None:
    contract = next(c for c in project()["tool"]["importlinter"]["contracts"] if c["type"] == "forbidden")
    bound = set(contract["source_modules"]) | set(contract["forbidden_modules"])
    modules = {f"cascader.{path.stem}" for path in (ROOT / "cascader").glob("*.py") if path.stem != "__init__"}
    modules |= {f"cascader.{path.parent.name}" for path in (ROOT / "cascader").glob("*/__init__.py")}
    assert modules - bound == set()


def test_the_entry_point_exists_and_is_the_command_line() -> None:
    module, _, function = project()["project"]["scripts"]["npu-testbed"].partition(":")
    assert getattr(importlib.import_module(module), function)(["--version"]) == 0
    installed = [point.value for point in entry_points(group="console_scripts") if point.name == "npu-testbed"]
    assert installed in ([], [f"{module}:{function}"])


def test_the_command_line_starts_without_loading_the_simulator_or_numpy() -> None:
    code = (
        "import sys, npu_testbed.commands.cli; npu_testbed.commands.cli.main(['--version']); "
        "print([name for name in ('numpy', 'simpy', 'rich', 'tflite') if name in sys.modules])"
    )
    output = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert (output.splitlines()[0], output.splitlines()[-1]) == (f"npu-testbed {VERSION}", "[]")


def test_python_dash_m_testbed_is_the_command_line() -> None:
    output = subprocess.run([sys.executable, "-m", "npu_testbed", "--version"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert output.splitlines()[0] == f"npu-testbed {VERSION}"


def built(tmp_path: Path, what: str) -> list[str]:
    """Build a wheel or an sdist into ``tmp_path``; the names of the files in git."""
    pytest.importorskip("setuptools", minversion="77", reason="the build back end is not installed")
    # Built from a copy: setuptools leaves its own folders beside the sources.
    copy = tmp_path / "sources"
    files = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\n")
    for name in filter(None, files):
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        (copy / name).write_bytes((ROOT / name).read_bytes())
    code = f"import setuptools.build_meta as b; print(b.build_{what}('..'))"
    # The compiled cores are no files in git. A compiler that fails leaves them out, and takes no time.
    subprocess.run([sys.executable, "-c", code], cwd=copy, env=os.environ | {"CC": "false"}, capture_output=True, check=True)
    return [name for name in files if name]


def test_a_wheel_holds_every_module_and_data_file(tmp_path: Path) -> None:
    files = built(tmp_path, "wheel")
    (wheel,) = tmp_path.glob("*.whl")
    inside = set(zipfile.ZipFile(wheel).namelist())
    assert [name for name in files if name.startswith(tuple(f"{package}/" for package in PACKAGES)) and name not in inside] == []


def test_a_source_distribution_holds_all_that_its_tests_need(tmp_path: Path) -> None:
    files = built(tmp_path, "sdist")
    (archive,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(archive) as sdist:
        inside = {name.partition("/")[2] for name in sdist.getnames()}
    assert [name for name in files if name not in inside] == []


def test_a_package_of_another_distribution_with_a_name_of_ours_is_named(tmp_path: Path) -> None:
    (tmp_path / "sim").mkdir()
    (tmp_path / "sim" / "__init__.py").write_text("raise SystemExit('not ours')\n")
    environment = os.environ | {"PYTHONPATH": os.pathsep.join((str(tmp_path), str(ROOT)))}
    code = "from npu_testbed.__main__ import main; print(main(['--version']))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "2\n"
    assert f"'sim' of npu-testbed is taken from {str(tmp_path / 'sim' / '__init__.py')!r}" in done.stderr
    assert done.stderr.count("\n") == 1


def test_the_pythons_that_are_declared_are_tried_from_the_oldest_to_the_newest() -> None:
    named = [c.rpartition(" ")[2] for c in project()["project"]["classifiers"] if re.fullmatch(r".* :: 3\.\d+", c)]
    assert project()["project"]["requires-python"] == f">={named[0]}"
    tox = (ROOT / "tox.ini").read_text(encoding="utf-8")
    assert f"[testenv:package-py{{{named[0].replace('.', '')},{named[-1].replace('.', '')}}}]" in tox


def test_one_wheel_serves_every_python_from_the_limited_api_on() -> None:
    """The Pythons before it have a wheel each."""
    oldest = re.search(r">=3\.(\d+)", project()["project"]["requires-python"])
    assert oldest
    assert project()["tool"]["cibuildwheel"]["build"] == [f"cp3{minor}-*" for minor in range(int(oldest.group(1)), 12)]
