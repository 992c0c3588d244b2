"""Firmware for tests: built with the cross compiler where it is installed, else by hand from instructions."""

from __future__ import annotations

import shutil
import struct
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from command_line import call

EXAMPLE = Path(__file__).parents[2] / "examples" / "firmware"


def need(tool: str, package: str) -> None:
    """Skip where a tool is missing."""
    if shutil.which(tool) is None:
        pytest.skip(f"{tool} is not installed (apt-get install {package})")


def make(*words: object) -> None:
    """Run the example's Makefile; its output fails the test."""
    command = ["make", "-s", "-C", str(EXAMPLE), *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def network(folder: Path, model: str = "zoo:tiny_residual", *options: str) -> None:
    """network.json, network.h and network.c."""
    plan = folder / "network.json"
    assert call("schedule", model, "--no-cascade", "--no-advice", *options, "-o", plan).status == 0
    assert call("export", plan, "--format", "c", "-o", folder / "network.c").status == 0


def compiled(source: str, folder: Path, *options: str) -> Path:
    """An ELF file for the chip corstone-300 of C source with its own vector table in the section .vectors."""
    need("arm-none-eabi-gcc", "gcc-arm-none-eabi")
    (folder / "test.c").write_text(source)
    elf = folder / "test.elf"
    script = EXAMPLE / "corstone-300" / "link.ld"
    command = ["arm-none-eabi-gcc", "-mthumb", "-O2", "-w", *(options or ("-mcpu=cortex-m33", "-mfloat-abi=soft"))]
    command += ["-ffreestanding", "-nostdlib", "-T", str(script), str(folder / "test.c"), "-lgcc", "-o", str(elf)]
    subprocess.run(command, check=True, timeout=120)
    return elf


def elf(*segments: tuple[int, bytes], machine: int = 40) -> bytes:
    """An ELF file whose segments lie at these addresses, all of them executable."""
    head, offset, tables, contents = 52 + 32 * len(segments), 52 + 32 * len(segments), b"", b""
    for address, content in segments:
        tables += struct.pack("<IIIIIIII", 1, offset, address, address, len(content), len(content), 7, 4)
        contents += content
        offset += len(content)
    ident = b"\x7fELF\x01\x01\x01".ljust(16, b"\0")
    header = struct.pack("<16sHHIIIIIHHHHHH", ident, 2, machine, 1, 0x41, 52, 0, 0, 52, 32, len(segments), 40, 0, 0)
    assert len(header) + len(tables) == head
    return header + tables + contents


def by_hand(*instructions: int, data: Sequence[int] = ()) -> bytes:
    """An ELF file of Thumb instructions (halves) behind a vector table; ``data`` are words behind them, at a multiple of 4."""
    code = struct.pack(f"<{len(instructions)}H", *instructions)
    code += b"\x00\xbf" * (len(instructions) & 1) + struct.pack(f"<{len(data)}I", *data)
    return elf((0, struct.pack("<II", 0x2001_0000, 0x41).ljust(0x40, b"\0") + code))
