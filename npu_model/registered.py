"""Objects that other distributions register by entry points: found by their group, loaded by their name, refused in one sentence."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from typing import Any

from msgspec import Struct

from npu_model.errors import InputError, did_you_mean
from npu_model.front import later
from npu_model.printable import shown

with later():
    from importlib import metadata  # The import takes a fortieth of a second, and few users register anything.

FORMS, COSTS = "npu_testbed.forms", "npu_testbed.costs"
"""Groups of entry points: forms of a network, and costs of a schedule."""

_HEADING = b"[npu_testbed."
_FOLDERS = (".dist-info", ".egg-info")


class Registered(Struct, frozen=True):
    """An object by its name: the location of its module, and the distribution with its version."""

    group: str
    name: str
    value: str
    distribution: str
    version: str

    @property
    def description(self) -> str:
        """The object's description for a sentence."""
        kind = "form" if self.group == FORMS else "cost"
        return f"{kind} {shown(self.name)} of {self.distribution} {self.version} (entry point {self.value})"

    def load(self) -> Any:
        """Import the object; InputError if that fails for any reason."""
        try:
            return metadata.EntryPoint(self.name, self.value, self.group).load()
        except Exception as error:  # noqa: BLE001  # the code is another's
            raise InputError(f"The {self.description} cannot be loaded: {_said(error)}; mend or uninstall that distribution.") from None


def _said(error: Exception) -> str:
    """An error of other code on one line."""
    return f"{type(error).__name__}: {shown(str(error))}" if str(error) else type(error).__name__


def failed(one: Registered, error: Exception) -> InputError:
    """The sentence for an object that raises when it is called."""
    return InputError(f"The {one.description} failed: {_said(error)}; mend or uninstall that distribution.")


def _points_of(folder: str) -> Iterator[bytes]:
    """The texts of the entry points of all distributions in a folder."""
    try:
        names = [one.path for one in os.scandir(folder or os.curdir) if one.name.endswith(_FOLDERS)]
    except OSError:
        return
    for name in names:
        with suppress(OSError), open(os.path.join(name, "entry_points.txt"), "rb") as file:  # noqa: PTH118, PTH123  # pathlib is slow
            yield file.read()


def _any_registered() -> bool:
    """Whether any folder of packages has an entry point of ours. Reading only their files takes a millisecond."""
    return any(_HEADING in text for folder in dict.fromkeys(sys.path) for text in _points_of(folder))


@cache
def registered(group: str) -> dict[str, Registered]:
    """All objects of a group by their names, in the order of these; InputError if two have one name."""
    if not _any_registered():
        return {}
    found: dict[str, Registered] = {}
    for one in metadata.distributions():
        for point in one.entry_points:
            if point.group != group:
                continue
            new = Registered(group, point.name, point.value, one.metadata["Name"], one.version)
            other = found.setdefault(point.name, new)
            if other != new:
                raise InputError(f"The {new.description} has the name of the {other.description}: uninstall one of both distributions.")
    return dict(sorted(found.items()))


def find_registered(group: str, name: str) -> Registered:
    """The object of a name; InputError if there is none."""
    known = registered(group)
    if name not in known:
        kind = "form" if group == FORMS else "cost"
        choose = f"choose {', '.join(known)}" if known else f"install a distribution with an entry point in {group}"
        raise InputError(f"The {kind} {shown(name)} is not registered{did_you_mean(name, known)}: {choose}.")
    return known[name]


def registered_tools(group: str) -> tuple[tuple[str, str], ...]:
    """The distributions that register objects of a group, with their versions."""
    return tuple(sorted({(one.distribution, one.version) for one in registered(group).values()}))
