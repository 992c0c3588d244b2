# ruff: noqa: INP001  # a script of its own, no package
"""Our command line with what Vela wrote kept in a folder: run again, a command takes what it takes without Vela's compilations.

    python benchmarks/kept_vela.py FOLDER COMMAND [ARGUMENT ...]

Each process of Vela's is known by its command and the files that it finds. What a known one wrote and said is given back at once.
"""

from __future__ import annotations

import os
import pickle
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from functools import partial
from hashlib import sha256
from pathlib import Path

from cascader.frontends.children import nothing, run_child
from cascader.frontends.vela import compiler
from npu_testbed.__main__ import main

_ENDED = "ended.pickle"


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def _key(command: Sequence[str], folder: Path) -> str:
    found = sha256(repr(list(command)).encode())
    for path in _files(folder):
        found.update(path.relative_to(folder).as_posix().encode() + sha256(path.read_bytes()).digest())
    return found.hexdigest()


def kept_child(
    kept: Path, command: Sequence[str], *, folder: Path, timeout: float, meanwhile: Callable[[], object] = nothing
) -> subprocess.CompletedProcess[str]:
    """Like :func:`run_child`, with what the child left in its folder and said, from ``kept`` or kept there now.

    What a signal ended is not kept: another time it may go well. Any number of processes may share the folder ``kept``.
    """
    place = kept / _key(command, folder)
    if place.is_dir():
        meanwhile()
        shutil.copytree(place / "files", folder, dirs_exist_ok=True)
        ended: subprocess.CompletedProcess[str] = pickle.loads((place / _ENDED).read_bytes())  # noqa: S301  # written below
        return ended
    given = set(_files(folder))
    ended = run_child(command, folder=folder, timeout=timeout, meanwhile=meanwhile)
    if ended.returncode < 0:
        return ended
    # Two processes may ask for the same: each writes its own, and whoever is later has nothing to add.
    own = kept / f"{place.name}.{os.getpid()}"
    shutil.copytree(folder, own / "files", ignore=lambda inside, names: {name for name in names if Path(inside, name) in given})
    (own / _ENDED).write_bytes(pickle.dumps(ended))
    try:
        own.rename(place)
    except OSError:
        shutil.rmtree(own)
    return ended


if __name__ == "__main__":
    compiler.run_child = partial(kept_child, Path(sys.argv[1]))
    sys.exit(main(sys.argv[2:]))
