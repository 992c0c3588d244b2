"""Ethos-U delegates as ExecuTorch 1.5.1 packs them, made from what Vela writes for a runtime without TFLite."""

from __future__ import annotations

import struct
import subprocess
import sys
from pathlib import Path

import numpy as np

from validation.zoo import build

U85_SYSTEM = ("--config", "Arm/vela.ini", "--system-config", "Ethos_U85_SYS_DRAM_Mid", "--memory-mode")
U85_DEDICATED = (*U85_SYSTEM, "Dedicated_Sram_384KB")
"""Vela's options for an Ethos-U85 that keeps feature maps in a fast scratch."""


def block(name: str, data: bytes = b"", *, elsewhere: bool = False) -> bytes:
    """A block as ExecuTorch 1.5.1 packs it."""
    return name.encode().ljust(16, b"\0") + struct.pack("<IB11s", len(data), elsewhere, b"") + data + bytes(-len(data) % 16)


def tensors(arrays: dict[str, np.ndarray], prefix: str) -> bytes:
    shapes = arrays[f"{prefix}_shape"]
    rows = [(*shape, *(int(arrays[f"{prefix}_{key}"][i]) for key in ("elem_size", "offset", "region"))) for i, shape in enumerate(shapes)]
    return struct.pack("<i", len(shapes)) + b"".join(struct.pack("<9i", *map(int, row)) for row in rows)


def raw_network(folder: Path, *options: str, device: str = "ethos-u55-128") -> dict[str, np.ndarray]:
    """Arrays of a small network that Vela writes for a runtime without TFLite; ``folder`` is for its files."""
    (folder / "n.tflite").write_bytes(build("tiny_residual"))
    command = ["n.tflite", "--output-format", "raw", "--accelerator-config", device, "--output-dir", ".", *options]
    subprocess.run([sys.executable, "-m", "ethosu.vela", *command], cwd=folder, check=True, capture_output=True)
    keys = ("cmd_data", "weight_data", "scratch_shape")
    keys += tuple(f"{prefix}_{key}" for prefix in ("input", "output") for key in ("shape", "elem_size", "offset", "region"))
    with np.load(folder / "n_vela.npz") as arrays:
        return {key: arrays[key] for key in keys}


def stream(raw: dict[str, np.ndarray], **changed: bytes) -> bytes:
    data = {
        "cmd_data": raw["cmd_data"].tobytes(),
        "weight_data": raw["weight_data"].tobytes(),
        "scratch_size": struct.pack("<I", int(raw["scratch_shape"][0])),
        "inputs": tensors(raw, "input"),
        "outputs": tensors(raw, "output"),
    } | changed
    return block("vela_bin_stream") + b"".join(block(name, content) for name, content in data.items()) + block("vela_end_stream")


def pte(*streams: bytes) -> bytes:
    """Streams among other bytes, as the segments of a file."""
    return b"\x1c\0\0\0ET12" + bytes(56) + b"".join(one + bytes(48) for one in streams)
