"""An archive in TVM's Model Library Format, version 7 (TVM 0.9 and later, ``python/tvm/micro/model_library_format.py``).

The tar file holds::

    metadata.json                    names, memory sizes, inputs and outputs, targets
    codegen/host/include/NAME.h      the C sources of :func:`~npu_model.export.c_source.export_c`
    codegen/host/src/NAME.c
    parameters/NAME.params           the constants, as one parameter file of TVM
    src/NAME.program.txt             the Programs as text, where TVM has the Relay source

The archive has no runtime and no executor configuration: the jobs run on the Ethos-U core driver, as with TVM's own Ethos-U code generator.
"""

from __future__ import annotations

import io
import json
import struct
import tarfile
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from npu_model.compiled.network import CompiledNetwork
from npu_model.errors import InputError
from npu_model.export.c_source import export_c
from npu_model.export.regions import constants_of
from npu_model.program import Binding
from npu_model.program.text import to_text

VERSION = 7
"""Version of the Model Library Format."""

EXPORT_DATETIME = "1970-01-01 00:00:00Z"
"""A fixed time: the same network gives the same bytes."""

_CPU = 1
"""kDLCPU of DLPack, the device of TVM's ``c`` and ``ethos-u`` targets."""

_LIST_MAGIC, _ARRAY_MAGIC = 0xF7E58D4F05049CB7, 0xDD5E40F096B4A13F
"""First words of TVM's parameter files and of the arrays in them (``src/runtime/file_utils.h``, ``ndarray.h``)."""

_UINT = 1
"""kDLUInt of DLPack."""


def parameter_file(arrays: Mapping[str, bytes]) -> bytes:
    """TVM's binary file of named byte arrays: magic, names, then each array with device, type, shape and content.

    >>> len(parameter_file({"p0": bytes(16)}))
    106
    """
    parts = [struct.pack("<QQQ", _LIST_MAGIC, 0, len(arrays))]
    for name in arrays:
        text = name.encode("utf-8")
        parts += [struct.pack("<Q", len(text)), text]
    parts.append(struct.pack("<Q", len(arrays)))
    for data in arrays.values():
        parts += [struct.pack("<QQ", _ARRAY_MAGIC, 0), struct.pack("<iiiBBHqq", _CPU, 0, 1, _UINT, 8, 1, len(data), len(data)), data]
    return b"".join(parts)


def _ports(side: str, bindings: Sequence[Binding]) -> dict[str, dict[str, Any]]:
    name, count = Counter(binding.name for binding in bindings).most_common(1)[0]
    if count > 1:
        raise InputError(f"{count} {side} are called {name!r}: the archive tells them by name; give each its own.")
    return {binding.name: {"dtype": str(binding.dtype), "size": binding.size} for binding in bindings}


def _metadata(network: CompiledNetwork, name: str, constants: int) -> dict[str, Any]:
    """The text of ``metadata.json``.

    The workspace is the arena. Inputs and outputs lie inside it, or they lie outside and only io counts them.
    """
    ports = network.inputs + network.outputs
    main = {
        "device": _CPU,
        "workspace_size_bytes": network.arena_size,
        "constants_size_bytes": constants,
        "io_size_bytes": sum(binding.size for binding in ports),
        "inputs": _ports("inputs", network.inputs),
        "outputs": _ports("outputs", network.outputs),
    }
    workspace = [{"device": _CPU, "workspace_size_bytes": network.arena_size}]
    jobs = [{"function_name": f"{name}_job_{job}", "workspace": workspace} for job in range(len(network.programs))]
    module = {
        "model_name": name,
        "export_datetime": EXPORT_DATETIME,
        "memory": {"functions": {"main": [main], "operator_functions": jobs}},
        "target": ["c -keys=cpu", f"ethos-u -accelerator_config={network.programs[0].accelerator}"],
        "executors": ["aot"],
        "style": "full-model",
    }
    return {"version": VERSION, "modules": {name: module}}


def _archive(files: Mapping[str, bytes]) -> bytes:
    """A tar file whose bytes depend only on names and contents."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for path in sorted(files):
            entry = tarfile.TarInfo(path)
            entry.size, entry.mode = len(files[path]), 0o644
            archive.addfile(entry, io.BytesIO(files[path]))
    return stream.getvalue()


def export_mlf(network: CompiledNetwork, name: str) -> bytes:
    """The archive as the bytes of an uncompressed tar file; the same network gives the same bytes.

    It raises the InputErrors of :func:`export_c`.
    """
    sources = export_c(network, name)
    contents = list(dict.fromkeys(constants_of(program) for program in network.programs))
    metadata = _metadata(network, name, sum(map(len, contents)))
    text = "\n".join(to_text(program) for program in network.programs)
    return _archive(
        {
            "metadata.json": (json.dumps(metadata, indent=2, sort_keys=True) + "\n").encode("ascii"),
            f"codegen/host/include/{name}.h": sources[f"{name}.h"].encode("ascii"),
            f"codegen/host/src/{name}.c": sources[f"{name}.c"].encode("ascii"),
            f"parameters/{name}.params": parameter_file({f"constants_{number}": data for number, data in enumerate(contents)}),
            f"src/{name}.program.txt": text.encode("utf-8"),
        }
    )
