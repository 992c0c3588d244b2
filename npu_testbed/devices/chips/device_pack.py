"""Device packs: the NPU with its MACs and the file for Vela that a ``.pdsc`` or ``.cdef`` names, under any element names."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from npu_model.accelerator import accelerator_names
from npu_model.errors import InputError
from npu_model.printable import printable
from validation.reading import read_configuration

_COMMENT = re.compile(r"<!--.*?-->|^\s*#.*?$", re.DOTALL | re.MULTILINE)
_NPU = re.compile(r"ethos[-_ ]?(u\d{2})(?:[-_ ](\d{2,4})(?!\d))?", re.IGNORECASE)
_MACS = re.compile(
    r"""[^<>\n]{0,200}?\bD?macs\b["']?\s{0,8}[=:]\s{0,8}["']?(\d{2,4})\b|\s{0,80}\n\s{0,80}macs:\s{0,8}(\d{2,4})\b""", re.IGNORECASE
)
_INI = re.compile(r"[\w./\\-]{1,200}\.ini\b")
_SECTION = re.compile(r"^\[(System_Config|Memory_Mode)\.([\w-]{1,99})\]", re.MULTILINE)
_USUAL_MODE = "Shared_Sram"

_REMEDY = "Write what you know into a .toml file, and give that to --chip."


def pack_values(path: Path) -> dict[str, str]:
    """The keys of a chip that a device pack says; InputError names what it does not say, or says more than once."""
    name = printable(path.name)
    text = _COMMENT.sub("", read_configuration(path, "Device pack"))
    npu = _only(name, "NPU with its number of MACs, such as Ethos-U55 and macs 128", _npus(text))
    found = [one.replace("\\", "/") for one in _INI.findall(text)]
    ini = _only(name, "configuration of Vela (.ini)", list(dict.fromkeys(found)))
    file = path.parent / ini
    said = _SECTION.findall(read_configuration(file, "Configuration file"))
    system = _only(f"{name} with {ini}", "system config", _chosen([one for kind, one in said if kind == "System_Config"], text))
    modes = _chosen([one for kind, one in said if kind == "Memory_Mode"], text)
    mode = _USUAL_MODE if _USUAL_MODE in modes else _only(f"{name} with {ini}", "memory mode", modes)
    return {
        "title": path.stem,
        "accelerator": npu,
        "config": ini,
        "system_config": system,
        "memory_mode": mode,
        "source": f"{path.name} and {ini}",
        "unknown": "whatever the file for Vela leaves out: bursts and outstanding transactions of the bus, if it has none",
    }


def _npus(text: str) -> list[str]:
    """The accelerators that are named, each once: with their MACs in the name, or in the same element or the next line."""
    found: dict[str, None] = {}
    for one in _NPU.finditer(text):
        macs = one[2]
        if macs is None:
            near = _MACS.match(text, one.end())
            macs = "" if near is None else near[1] or near[2]
        name = f"ethos-{one[1].lower()}-{macs}"
        if name in accelerator_names():
            found[name] = None
    return list(found)


def _chosen(names: Sequence[str], text: str) -> list[str]:
    """The names that the pack has, too; all of them if it has none."""
    said = [one for one in names if re.search(rf"(?<![\w-]){re.escape(one)}(?![\w-])", text)]
    return said or list(names)


def _only(where: str, what: str, found: Sequence[str]) -> str:
    if not found:
        raise InputError(f"{where} names no {what}. {_REMEDY}")
    if len(found) > 1:
        raise InputError(f"{where} names more than one {what}: {printable(', '.join(found[:8]))}. {_REMEDY}")
    return found[0]
