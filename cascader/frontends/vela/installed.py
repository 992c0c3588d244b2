"""The version of the installed Vela, read from its distribution's folder, and the form in which a schedule records it."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from npu_model.front import later

with later():
    from importlib import metadata  # its import takes a fortieth of a second


LEGALISER = "ethos-u-vela"
REMARK = "ethos-u-vela remark"


def vela_tools(version: str, core: str, note: str) -> tuple[tuple[str, str], ...]:
    """Vela as the legaliser in a schedule's list of tools; ``note`` adds why it was not Vela's default core.

    >>> vela_tools("5.2.0", "C++", "")
    (('ethos-u-vela', '5.2.0'),)
    """
    return ((LEGALISER, f"{version} ({core} core)"), (REMARK, note)) if note else ((LEGALISER, version),)


_DISTRIBUTION = "ethos-u-vela"
_PACKAGE = "ethosu"


def beside(folders: list[str]) -> str | None:
    """The version in the name of the one ``ethos_u_vela-VERSION.dist-info`` next to the package's folder.

    None unless exactly one is there.
    """
    stem = f"{_DISTRIBUTION.replace('-', '_')}-"
    found = {path.name[len(stem) : -len(".dist-info")] for folder in folders for path in Path(folder).parent.glob(f"{stem}*.dist-info")}
    return found.pop() if len(found) == 1 else None


def installed_version() -> str | None:
    """The version of Vela; None if it is not installed.

    Python's own metadata look-up is used only if no folder, or several, give the version: its import takes a fortieth of a second.
    """
    spec = find_spec(_PACKAGE)
    version = None if spec is None else beside(list(spec.submodule_search_locations or ()))
    if version is not None:
        return version

    try:
        return metadata.version(_DISTRIBUTION)
    except metadata.PackageNotFoundError:
        return None
