"""Findings kept in a folder, so that a run that was interrupted goes on where it was.

A file is named by the network and a key of all that the finding depends on: the network's bytes, the accelerator, the memory
system, the versions of the tools and the source of this package. What depends on anything else is found anew.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from importlib import metadata
from pathlib import Path

from npu_model.accelerator import accelerator
from npu_model.errors import InputError
from testbed.files import write_file
from testbed.memory_options import MemoryOptions, memory_system_sha256
from testbed.portfolio.verdict import Finding, from_json
from testbed.versions import tool_versions
from validation.portfolio import build
from validation.reading import read_text

SCHEMA = 1
"""Version of a kept finding; raised whenever a field changes its meaning."""

_PACKAGES = ("npu_model", "cascader", "sim", "validation", "testbed")
_TOOLS = ("ethos-u-vela", "ai-edge-litert", "numpy")


@lru_cache(maxsize=1)
def source_sha256() -> str:
    """Hash of every source file of this package: a search that was changed has found nothing yet."""
    root, digest = Path(__file__).parents[2], sha256()
    for package in _PACKAGES:
        for path in sorted((root / package).rglob("*.py")):
            digest.update(path.relative_to(root).as_posix().encode())
            digest.update(sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "none"


@dataclass(frozen=True, slots=True)
class Kept:
    """A folder of findings for one accelerator and memory system."""

    folder: Path
    accelerator: str
    memory: MemoryOptions
    verified: bool

    def path(self, name: str) -> Path:
        """Where the finding of the network ``name`` is kept."""
        content = {
            "schema": SCHEMA,
            "network": sha256(build(name)).hexdigest(),
            "accelerator": accelerator(self.accelerator).name,
            "memory system": memory_system_sha256(self.memory.memory_system()),
            "vela": [str(option) for option in (*self.memory.vela_names, self.memory.config)],
            "tools": tool_versions(tuple((package, _version(package)) for package in _TOOLS)),
            "source": source_sha256(),
            "verified": self.verified,
        }
        key = sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
        return self.folder / f"{name}-{self.accelerator}-{key[:16]}.json"

    def find(self, name: str) -> Finding | None:
        """The finding that is kept, None if there is none."""
        path = self.path(name)
        if not path.exists():
            return None
        try:
            return from_json(json.loads(read_text(path, "Finding")))
        except (ValueError, KeyError, TypeError):
            raise InputError(f"Finding {str(path)!r} cannot be read: remove it, it will be found anew.") from None

    def keep(self, finding: Finding) -> None:
        """Write a finding; what failed is not kept, so that it is tried again."""
        if not finding.failure:
            write_file(self.path(finding.network), (json.dumps(finding.to_json(), indent=1, sort_keys=True) + "\n").encode())
