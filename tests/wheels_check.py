"""Wheels as the project would publish them: built, audited, and each installed alone.

``tox -e wheels`` runs it. The binary wheel must have the tag of the limited API, call nothing beyond it, and need no library that its
manylinux tag does not allow; the pure wheel must hold no C core; both must make the same schedule. On Linux the binary wheel gets its
manylinux tag. ``-- --keep FOLDER`` keeps the files.
"""

from __future__ import annotations

import argparse
import re
import shutil
import sys
from pathlib import Path

from package_check import installed, packages_with_cores, run

OLDEST_GLIBC = 2, 17
"""That of manylinux2014, the oldest tag for which numpy has wheels."""


def built(root: Path, folder: Path, *words: str, **environment: str) -> Path:
    """The one file that a build makes in a folder."""
    folder.mkdir(parents=True)
    run(folder, sys.executable, "-m", "build", *words, "--outdir", folder, root, **environment)
    (made,) = folder.iterdir()
    return made


def audited(wheel: Path, folder: Path) -> Path:
    """A Linux wheel with its manylinux tag; AssertionError if that is newer than :data:`OLDEST_GLIBC`."""
    shown = run(folder, sys.executable, "-m", "auditwheel", "show", wheel)
    tag = re.search(r'"manylinux_(\d+)_(\d+)_\w+"', shown)
    assert tag, shown
    assert tuple(map(int, tag.groups())) <= OLDEST_GLIBC, shown
    run(folder, sys.executable, "-m", "auditwheel", "repair", "--wheel-dir", folder / "repaired", wheel)
    (repaired,) = (folder / "repaired").iterdir()
    return repaired


def main() -> None:
    """Build, audit, install and compare; CalledProcessError or AssertionError if something does not hold."""
    parser = argparse.ArgumentParser(description="Build and check the wheels that a release would publish.")
    parser.add_argument("root", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--keep", type=Path, help="folder to keep the files in")
    arguments = parser.parse_args()
    root, folder = arguments.root.resolve(), arguments.folder.resolve()
    source = built(root, folder / "source", "--sdist")
    binary = built(root, folder / "binary", "--wheel")
    pure = built(root, folder / "pure", "--wheel", NPU_TESTBED_PURE="1")
    if sys.version_info >= (3, 11):
        assert "-cp311-abi3-" in binary.name, binary.name
        print(run(folder, sys.executable, "-m", "abi3audit", "--strict", "--summary", binary))  # noqa: T201  # run by hand
    if sys.platform == "linux":
        binary = audited(binary, folder)
    assert pure.name.endswith("-py3-none-any.whl"), pure.name
    names, made = packages_with_cores(root), {}
    for wheel, expected in ((binary, names), (pure, [])):
        place = folder / "installed" / wheel.stem
        place.mkdir(parents=True)
        cores, *made[wheel.name] = installed(place, wheel, names)
        assert cores == expected, f"{wheel.name} has the compiled cores {cores}"
    first, second = made.values()
    assert first == second, "the replays differ"
    print(f"{binary.name}, {pure.name}, {source.name}: the same replay")  # noqa: T201  # run by hand
    if arguments.keep:
        arguments.keep.mkdir(parents=True, exist_ok=True)
        for one in (source, binary, pure):
            shutil.copy(one, arguments.keep)


if __name__ == "__main__":
    main()
