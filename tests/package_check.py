"""The package as people get it: both distributions built, each installed alone, and the same schedule from both.

``tox -e package-py310,package-py313`` runs it on the oldest and the newest Python. The wheel is installed as it was built, the source
distribution as on a machine without a C compiler (``CC=false``), where the Python forms stand in for the compiled cores.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import venv
from pathlib import Path

CORES = "import json, sys; from npu_model.native import native; print(json.dumps([name for name in sys.argv[1:] if native(name)]))"
COMPILE = """
from setuptools._distutils.ccompiler import new_compiler
from setuptools._distutils.sysconfig import customize_compiler
compiler = new_compiler()
customize_compiler(compiler)
compiler.compile(["one.c"])
"""
NO_COMPILER = {"CC": "false", "CXX": "false"}


def run(folder: Path, *words: object, **environment: str) -> str:
    """Run a command in a folder, without what would let it find our sources."""
    plain = {key: value for key, value in os.environ.items() if key not in {"PYTHONPATH", "NPU_TESTBED_PURE"}}
    command = [str(word) for word in words]
    return subprocess.run(command, cwd=folder, env=plain | environment, check=True, stdout=subprocess.PIPE, text=True).stdout


def compiler(folder: Path) -> bool:
    """Whether this machine can build a C module."""
    try:
        (folder / "one.c").write_text("int one(void) { return 1; }\n")
        run(folder, sys.executable, "-c", COMPILE)
    except subprocess.CalledProcessError:
        return False
    return True


def packages_with_cores(root: Path) -> list[str]:
    """The packages of which the sources have a compiled core."""
    folders = (folder.parent.relative_to(root) for name in ("npu_model", "cascader", "sim") for folder in (root / name).glob("**/native"))
    return sorted(".".join(folder.parts) for folder in folders)


def installed(folder: Path, distribution: Path, names: list[str], **environment: str) -> tuple[list[str], str]:
    """The compiled cores of a distribution that is installed alone, and a replay of Vela's schedule; a search runs, too."""
    venv.create(folder / "venv", with_pip=True)
    programs = folder / "venv" / ("Scripts" if os.name == "nt" else "bin")
    run(folder, programs / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", distribution, **environment)
    run(folder, programs / "python", "-m", "pip", "check", "--disable-pip-version-check")
    cores = json.loads(run(folder, programs / "python", "-c", CORES, *names))
    run(folder, programs / "npu-testbed", "schedule", "zoo:tiny_residual", "-o", "s.json")
    return cores, run(folder, programs / "npu-testbed", "simulate", "vela", "zoo:tiny_residual", "--json")


def main(root: Path, folder: Path) -> None:
    """Build, install and compare; CalledProcessError or AssertionError if something does not hold."""
    folders = [folder / name for name in ("dist", "wheel", "source")]
    for one in folders:
        one.mkdir(parents=True)
    run(folder, sys.executable, "-m", "build", "--outdir", folders[0], root)
    (wheel,), (source,) = folders[0].glob("*.whl"), folders[0].glob("*.tar.gz")
    names = packages_with_cores(root)
    compiled, replay = installed(folders[1], wheel, names)
    pure, other = installed(folders[2], source, names, **NO_COMPILER)
    said = f"{wheel.name} with the compiled cores {compiled}, {source.name} without a compiler with {pure}"
    print(f"Python {sys.version.split()[0]}: {said}")  # noqa: T201  # run by hand
    assert pure == []
    assert compiled == (names if compiler(folder) else [])
    assert replay == other


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve())
