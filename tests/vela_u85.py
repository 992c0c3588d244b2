"""Networks of the portfolio compiled by Vela for an Ethos-U85, each once in a process."""

from __future__ import annotations

import subprocess
import sys
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from validation.portfolio import build

_SYSTEMS = {128: "Low", 256: "Low", 512: "Mid", 1024: "High", 2048: "High"}
"""Vela's system config for a number of MACs, as the published streams have it."""


@cache
def compiled(name: str, macs: int) -> bytes:
    """The ``*_vela.tflite`` of the portfolio's network ``name`` for that many MACs."""
    return listed(name, macs)[0]


@cache
def listed(name: str, macs: int) -> tuple[bytes, str]:
    """The same with Vela's listing of its stream."""
    with TemporaryDirectory() as folder:
        model = Path(folder) / "network.tflite"
        model.write_bytes(build(name))
        options = ["--accelerator-config", f"ethos-u85-{macs}", "--config", "Arm/vela.ini", "--output-dir", folder]
        options += ["--system-config", f"Ethos_U85_SYS_DRAM_{_SYSTEMS[macs]}", "--memory-mode", "Dedicated_Sram"]
        command = [sys.executable, "-m", "ethosu.vela", str(model), *options, "--verbose-register-command-stream"]
        text = subprocess.run(command, capture_output=True, check=True, text=True).stdout
        return (Path(folder) / "network_vela.tflite").read_bytes(), text
