"""TVM is imported in one package, when it is called, and its absence or a foreign version is one sentence."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from cascader.tensorir.compat import load
from npu_model.errors import InputError

ROOT = Path(__file__).parents[3]
IMPORT = re.compile(r"^\s*(?:import|from)\s+tvm\b|import_module\(\s*f?[\"']tvm\b", re.MULTILINE)


def test_only_the_tensorir_package_imports_tvm_and_there_one_module() -> None:
    found = {
        path.relative_to(ROOT).as_posix()
        for package in ("cascader", "npu_model", "sim", "npu_testbed", "validation")
        for path in (ROOT / package).rglob("*.py")
        if IMPORT.search(path.read_text(encoding="utf-8"))
    }
    assert found == {"cascader/tensorir/compat.py"}


def test_importing_the_package_does_not_import_tvm() -> None:
    modules = ", ".join(
        f"cascader.tensorir.{path.stem}" for path in (ROOT / "cascader" / "tensorir").glob("*.py") if path.stem != "__init__"
    )
    code = f"import sys, {modules}; sys.exit('tvm' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False, cwd=ROOT).returncode == 0


def test_without_tvm_one_sentence_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tvm", None)
    with pytest.raises(InputError, match=r"install the extra 'tensorir' \(pip install 'npu-testbed\[tensorir\]'\)\.$"):
        load.__wrapped__()


@pytest.mark.parametrize("version", ["0.25.0.post1", "0.28.0", "1.0"])
def test_another_version_of_tvm_is_refused(version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    other = ModuleType("tvm")
    other.__dict__["__version__"] = version
    monkeypatch.setitem(sys.modules, "tvm", other)
    with pytest.raises(InputError, match=f"Apache TVM {re.escape(version)} is installed where 0.26 or 0.27 is needed"):
        load.__wrapped__()
