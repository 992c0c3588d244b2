"""The schedule file: a Schedule as JSON text that is self-contained, checked, and the same bytes every time."""

from __future__ import annotations

import re
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

import msgspec
from msgspec.structs import replace

from cascader.ethosu.job.schedule import Schedule
from cascader.ethosu.network.network import CpuPart, EthosuPart
from cascader.ethosu.verify.check import check_schedule
from npu_model.documents import MAX_INTEGER, encoded, plain, typed
from npu_model.errors import InputError
from npu_model.front import later
from npu_model.printable import shown
from npu_model.tflite.model import MAX_TENSOR_NAME

with later():
    import json  # few schedules have a name that is not of ASCII characters

SCHEMA = 6
"""Version of the file's structure. It rises whenever a field changes its name or its meaning."""

_BEFORE = 5
"""The previous version, which is still read: ``network.macs_again`` is ``network.recomputed_macs`` now."""

_NEW_NAMES = {"macs_again": "recomputed_macs"}

MAX_FILE_BYTES = 1 << 29
"""Limit of the length of a schedule file."""

MAX_VALUES = 1 << 20
"""Limit of the lists, objects and commas in a schedule file: a few per job, and the largest of the zoo's has some ten thousand.

A value of three characters takes a hundred bytes in memory, so the length alone limits nothing.
"""

MAX_TEXT = 2 * MAX_TENSOR_NAME
"""Limit of the length of a name: a model's, with what a form adds to it."""

_BYTES = ("constants", "content")
"""Fields whose text is base64, not a name."""

_KEYS = {"schema", "digest", "schedule"}
_THE_FILE = "The schedule file"


def digest(schedule: Schedule) -> str:
    """SHA-256 of the content in canonical form; the constants enter by their own digest."""
    return sha256(encoded((SCHEMA, _by_digest(schedule)))).hexdigest()


def _by_digest(schedule: Schedule) -> Schedule:
    """The schedule with the digest of its constants in their place."""
    return replace(schedule, network=replace(schedule.network, constants=sha256(schedule.network.constants).digest()))


def _renamed(given: Any, names: Mapping[str, str]) -> Any:
    """The JSON values of a schedule with other names of its network's fields, in the same order."""
    if not isinstance(given, dict) or not isinstance(given.get("network"), dict):
        return given
    return given | {"network": {names.get(key, key): value for key, value in given["network"].items()}}


def _digest_before(schedule: Schedule) -> str:
    """The digest that the previous version of the file has for a schedule."""
    old = _renamed(plain(_by_digest(schedule)), {new: old for old, new in _NEW_NAMES.items()})
    return sha256(encoded((_BEFORE, old))).hexdigest()


def _ascii(text: str) -> str:
    return re.sub("[^\x00-\x7f]+", lambda found: json.dumps(found.group())[1:-1], text)


def to_json(schedule: Schedule) -> str:
    """The schedule as text: fields in their order, ASCII, no time stamps."""
    document = encoded({"schema": SCHEMA, "digest": digest(schedule), "schedule": schedule})
    return _ascii(msgspec.json.format(document, indent=1).decode() + "\n")


def _parse(text: str) -> dict[str, Any]:
    if len(text) > MAX_FILE_BYTES:
        raise InputError(f"The schedule file has {len(text)} characters: {MAX_FILE_BYTES} is the most that is read.")
    if not text.isascii():
        raise InputError("The schedule file has characters that are not ASCII: it is damaged or of another kind; write it again.")
    values = sum(map(text.count, "[{,"))
    if values > MAX_VALUES:
        raise InputError(f"The schedule file has {values} lists, objects and commas: {MAX_VALUES} is the most; write it again.")
    try:
        document = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise InputError(f"The schedule file is not JSON ({reason}): it is cut off or of another kind; write it again.") from None
    if not isinstance(document, dict) or "schema" not in document:
        raise InputError("The file has no 'schema': it is not a schedule file; write one with `npu-testbed schedule`.")
    if document["schema"] not in (_BEFORE, SCHEMA) or type(document["schema"]) is not int:
        known = f"{_BEFORE} and {SCHEMA}"
        raise InputError(f"The schedule file has schema {shown(document['schema'])}: this version reads {known}; write it again.")
    if set(document) != _KEYS:
        raise InputError("The schedule file has other keys than schema, digest and schedule: write it again.")
    return document


def _refuse_beyond_bounds(given: object, where: str = "") -> None:
    """InputError for an integer or a name that no part of a schedule has."""
    if isinstance(given, dict):
        for key, value in given.items():
            _refuse_beyond_bounds(value, f"{where}.{key}" if where else key)
    elif isinstance(given, list):
        for index, value in enumerate(given):
            _refuse_beyond_bounds(value, f"{where}[{index}]")
    elif isinstance(given, str) and len(given) > MAX_TEXT and not where.endswith(_BYTES):
        _refuse(given, where, f"a text of up to {MAX_TEXT} characters")
    elif isinstance(given, int) and abs(given) >= MAX_INTEGER:
        _refuse(given, where, f"an integer between -{MAX_INTEGER} and {MAX_INTEGER}")


def _refuse(given: object, where: str, wanted: str) -> None:
    raise InputError(f"{_THE_FILE} has {shown(given)} at {where} where {wanted} is needed: write the file again.")


def _refuse_other_keys(given: Any, known: Any, where: str = "") -> None:
    """InputError if the JSON values have a key that the parsed values lack, or the other way around."""
    if isinstance(known, dict):
        for key in sorted(given.keys() ^ known.keys()):
            _refuse(key if key in given else sorted(given), where or "its top", f"one of the keys {', '.join(known)}")
        for key, value in known.items():
            _refuse_other_keys(given[key], value, f"{where}.{key}" if where else key)
    elif isinstance(known, list):
        for index, value in enumerate(known):
            _refuse_other_keys(given[index], value, f"{where}[{index}]")


def schedule_of(given: object) -> Schedule:
    """The schedule in JSON values; InputError for a wrong type, an unknown key or a missing one."""
    _refuse_beyond_bounds(given)
    read = typed(Schedule, given, _THE_FILE)
    graph = read.network.graph
    parts = tuple(
        replace(part, payload=typed(EthosuPart | CpuPart, part.payload, _THE_FILE, f"network.graph.parts[{index}].payload"))  # type: ignore[arg-type]  # a union
        for index, part in enumerate(graph.parts)
    )
    schedule = replace(read, network=replace(read.network, graph=replace(graph, parts=parts)))
    _refuse_other_keys(given, plain(schedule))
    return schedule


def from_json(text: str) -> Schedule:
    """The schedule that ``to_json`` wrote.

    InputError, the most specific first: not JSON, another schema, a value of the wrong type, an inconsistent schedule (see
    :func:`check_schedule`), and finally a file that was edited later.
    """
    document = _parse(text)
    is_old = document["schema"] == _BEFORE
    schedule = schedule_of(_renamed(document["schedule"], _NEW_NAMES) if is_old else document["schedule"])
    check_schedule(schedule)
    if (_digest_before if is_old else digest)(schedule) != document["digest"]:
        raise InputError("The schedule file was edited after it was written: run `npu-testbed schedule` again.")
    return schedule
