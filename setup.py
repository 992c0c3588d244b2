"""The compiled cores: a package that has a folder ``native`` gets one small C module. Without a compiler its Python forms run."""

import os
import sys
from pathlib import Path

from setuptools import Extension, setup

# The limited API has buffers from Python 3.11 on: from there one wheel serves every later Python.
ABI3 = sys.version_info >= (3, 11)
# With this variable the wheel is pure, for machines that no binary one is for.
PURE = bool(os.environ.get("NPU_TESTBED_PURE"))
ROOT = Path(__file__).parent
FOLDERS = [folder for package in ("cascader", "npu_model", "sim") for folder in sorted((ROOT / package).glob("**/native"))]
HEADERS = sorted(str(path.relative_to(ROOT)) for folder in FOLDERS for path in folder.glob("*.h"))
# `tox -e sanitize` builds cores that end at the first access or arithmetic that C does not define.
SANITIZE = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer", "-g", "-O1"]
SANITIZED = SANITIZE if os.environ.get("NPU_TESTBED_SANITIZE") else []
# Functions that a core calls in another package are built into both.
BORROWED = {"cascader/ethosu": ("npu_model/native/block_work.c", "npu_model/native/shram.c")}


def core(folder: Path) -> Extension:
    """The compiled core of the package that holds ``folder``; an installation goes on without it where it cannot be built."""
    package = folder.parent.relative_to(ROOT)
    return Extension(
        ".".join((*package.parts, "_native")),
        [*sorted(str(path.relative_to(ROOT)) for path in folder.glob("*.c")), *BORROWED.get(package.as_posix(), ())],
        include_dirs=["npu_model", "npu_model/native"],
        depends=["npu_model/flat.h", *HEADERS],
        define_macros=[("Py_LIMITED_API", "0x030B0000")] if ABI3 else [],
        # Fused multiply-adds would round otherwise than the Python forms do.
        extra_compile_args=[] if sys.platform == "win32" else ["-O3", "-ffp-contract=off", "-fvisibility=hidden", *SANITIZED],
        extra_link_args=SANITIZED,
        py_limited_api=ABI3,
        optional=True,
    )


setup(
    ext_modules=[] if PURE else [core(folder) for folder in FOLDERS],
    options={"bdist_wheel": {"py_limited_api": "cp311"}} if ABI3 and not PURE else {},
)
