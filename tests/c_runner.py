"""Generated C, compiled and run in a process of its own, in an arena of exactly as many bytes as a test says."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from cascader.tensorir.c_source import CSource

Array = npt.NDArray[Any]

_MAIN = """
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "{name}.h"

int main(int argc, char **argv) {{
    size_t size = (size_t)atoi(argv[argc - 1]);
    char *arena = malloc(size);
    static {in_type} input[{in_size}];
    static {out_type} output[{out_size}];
    memset(output, 85, sizeof output);
    if (fread(input, 1, sizeof input, stdin) != sizeof input) return 3;
    int status = {name}_run(input, output, arena, size);
    fwrite(output, 1, sizeof output, stdout);
    free(arena);
    return status == 0 ? 0 : 1;
}}
"""
"""The arena lies on the heap, where the sanitizer sees a byte too far; the output begins as bytes of 85."""


def run_c(made: CSource, name: str, value: Array, output: Array, arena: int, folder: Path) -> tuple[int, Array]:
    """Exit status and output of the function for one input; ``output`` has the form of the output."""
    compiler = shutil.which("gcc")
    if compiler is None:
        pytest.skip("gcc is not installed")
    for file, text in made.files.items():
        (folder / file).write_text(text)
    types = {"int8": "int8_t", "float32": "float"}
    main = _MAIN.format(
        name=name, in_type=types[str(value.dtype)], out_type=types[str(output.dtype)], in_size=value.size, out_size=output.size
    )
    (folder / "main.c").write_text(main)
    program = folder / "program"
    _checked(
        [
            compiler,
            "-std=c99",
            "-Wall",
            "-Wextra",
            "-Werror",
            "-O1",
            "-fsanitize=address,undefined",
            "-fno-sanitize-recover",
            "main.c",
            f"{name}.c",
            "-lm",
            "-o",
            str(program),
        ],
        folder,
    )
    done = subprocess.run([program, str(arena)], input=value.tobytes(), capture_output=True, check=False, timeout=60)
    assert b"ERROR" not in done.stderr, done.stderr[:2000]
    return done.returncode, np.frombuffer(done.stdout, dtype=output.dtype).reshape(output.shape)


def _checked(command: Sequence[str], folder: Path) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr[:2000]
