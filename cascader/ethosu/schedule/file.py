"""The schedule file: a Schedule as JSON text that is self-contained, checked, and the same bytes every time."""

from __future__ import annotations

import json
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from json.encoder import encode_basestring_ascii
from typing import Any, NoReturn

from msgspec.structs import replace

from cascader.ethosu.network.network import Network
from cascader.ethosu.schedule.codec import from_plain, to_plain
from cascader.ethosu.schedule.schedule import Schedule
from cascader.ethosu.verify.check import check_schedule
from npu_model.errors import InputError
from npu_model.printable import shown

SCHEMA = 3
"""Version of the file's structure; raised whenever a field changes its meaning."""

HOMES_SCHEMA = 4
"""Version of a file in which tensors have homes outside the arena: whoever does not know them would take them for tensors of the arena."""

MAX_FILE_BYTES = 1 << 29
"""Bound of the length of a schedule file."""

MAX_VALUES = 1 << 20
"""Bound of the lists, objects and commas in a schedule file: a few per job, and the largest of the zoo's has some ten thousand.
A value of three characters takes a hundred bytes in memory, so that the length alone bounds nothing."""


_LATELY: deque[tuple[Network, dict[str, Any]]] = deque(maxlen=8)
"""Networks whose JSON values were worked out last, without their constants: the points of a frontier are of a few forms."""


def plain_network(network: Network) -> dict[str, Any]:
    """The JSON value of a network without its constants, which are not compressed for nothing; not to be changed."""
    found = next((plain for one, plain in _LATELY if one is network), None)
    if found is None:
        found = to_plain(replace(network, constants=b""))
        _LATELY.append((network, found))
    return found


def _plain(schedule: Schedule, **constants: str) -> dict[str, Any]:
    """The JSON value of a schedule with something in place of its constants."""
    network = plain_network(schedule.network) | constants
    plain: dict[str, Any] = to_plain(schedule, {id(schedule.network): network})
    return plain


def _schema(schedule: Schedule) -> int:
    return HOMES_SCHEMA if schedule.network.homes else SCHEMA


def digest(schedule: Schedule) -> str:
    """SHA-256 of the content in canonical form; constants enter uncompressed, as compressors differ."""
    plain = _plain(schedule, constants=sha256(schedule.network.constants).hexdigest())
    return sha256(json.dumps([_schema(schedule), plain], sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def to_json(schedule: Schedule) -> str:
    """The schedule as text: sorted keys, ASCII, no time stamps."""
    with ThreadPoolExecutor(1) as beside:  # compressing leaves Python's lock to others
        constants = beside.submit(to_plain, schedule.network.constants)
        found = digest(schedule)
        compressed = {"constants": constants.result()} if schedule.network.constants else {}
    return indented({"schema": _schema(schedule), "digest": found, "schedule": _plain(schedule, **compressed)}) + "\n"


def indented(value: object, margin: str = "\n") -> str:
    """The text of ``json.dumps(value, sort_keys=True, indent=1)``, in a third of the time: Python's own encoder indents in generators."""
    inner = margin + " "
    if isinstance(value, dict) and value:
        lines = [f"{encode_basestring_ascii(key)}: {indented(item, inner)}" for key, item in sorted(value.items())]
        return "{" + inner + ("," + inner).join(lines) + margin + "}"
    if isinstance(value, list) and value:
        return "[" + inner + ("," + inner).join([indented(item, inner) for item in value]) + margin + "]"
    return json.dumps(value) if type(value) is not int else str(value)


def _refuse_constant(text: str) -> NoReturn:
    raise InputError(f"The schedule file has the number {text}: only finite numbers have a meaning; write the file again.")


def _parse(text: str) -> dict[str, Any]:
    if len(text) > MAX_FILE_BYTES:
        raise InputError(f"The schedule file has {len(text)} characters: {MAX_FILE_BYTES} is the most that is read.")
    if not text.isascii():
        raise InputError("The schedule file has characters that are not ASCII: it is damaged or of another kind; write it again.")
    values = sum(map(text.count, "[{,"))
    if values > MAX_VALUES:
        raise InputError(f"The schedule file has {values} lists, objects and commas: {MAX_VALUES} is the most; write it again.")
    try:
        document = json.loads(text, parse_constant=_refuse_constant)
    except InputError:
        raise
    except (ValueError, RecursionError) as error:
        reason = f"line {error.lineno}" if isinstance(error, json.JSONDecodeError) else type(error).__name__
        raise InputError(f"The schedule file is not JSON ({reason}): it is cut off or of another kind; write it again.") from None
    if not isinstance(document, dict) or "schema" not in document:
        raise InputError("The file has no 'schema': it is not a schedule file; write one with `npu-testbed schedule`.")
    if document["schema"] not in (SCHEMA, HOMES_SCHEMA) or type(document["schema"]) is not int:
        raise InputError(
            f"The schedule file has schema {shown(document['schema'])}: this version reads {SCHEMA} and {HOMES_SCHEMA}; write it again."
        )
    if set(document) != {"schema", "digest", "schedule"}:
        raise InputError("The schedule file has other keys than schema, digest and schedule: write it again.")
    return document


def from_json(text: str) -> Schedule:
    """The schedule that ``to_json`` wrote.

    InputError, the most specific first: no JSON, another schema, a value of the wrong type, a schedule that is wrong in
    itself (see :func:`check_schedule`), and at last one that is not what was written.
    """
    document = _parse(text)
    schedule: Schedule = from_plain(Schedule, document["schedule"])
    check_schedule(schedule)
    if digest(schedule) != document["digest"]:
        raise InputError("The schedule file was edited after it was written: run `npu-testbed schedule` again.")
    return schedule
