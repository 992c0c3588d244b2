"""Dask clusters: an executor on one, and its failures as sentences."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from concurrent.futures import CancelledError, Executor
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from queue import Empty, Queue
from threading import Thread
from typing import Any

from msgspec import Struct

from npu_model.errors import InputError
from npu_model.printable import printable
from validation.reading import read_text

ANSWER_SECONDS = 30.0
"""Time limit for a scheduler's answer to a connection."""

RETRIES = 3
"""Number of times that a point is sent out again after its worker has died."""


class Certificates(Struct, frozen=True):
    """Files in PEM form, by the names of Dask's own options: the authority's certificate, this client's certificate, and its key."""

    ca_file: Path
    cert: Path
    key: Path


class Cluster(Struct, frozen=True):
    """A Dask cluster by the address of its scheduler. With ``certificates``, connections are encrypted and both sides are authenticated."""

    address: str
    certificates: Certificates | None = None


def _dask() -> Any:
    """Dask's package, which has no types; InputError if it is not installed, because a sweep on one machine works without it."""
    try:
        return import_module("distributed")
    except ModuleNotFoundError:
        raise InputError("--distributed needs Dask: install the extra 'distributed'.") from None


def _security(cluster: Cluster) -> Any:
    """Dask's form of the certificates; None leaves it to Dask's configuration."""
    files = cluster.certificates
    if files is None:
        return None
    if not cluster.address.startswith("tls://"):
        raise InputError(f"Certificates were given for {printable(cluster.address)}, which is not encrypted: write tls://HOST:PORT.")
    for what, path in (("Certificate authority", files.ca_file), ("Certificate", files.cert), ("Key", files.key)):
        read_text(path, what)
    names = {"tls_ca_file": files.ca_file, "tls_client_cert": files.cert, "tls_client_key": files.key}
    return _dask().Security(require_encryption=True, **{name: str(path) for name, path in names.items()})


def _connected(cluster: Cluster) -> Any:
    """A client of the cluster; InputError if no scheduler answers in time. Dask itself waits for ever for a silent port."""
    dask, security = _dask(), _security(cluster)
    answers: Queue[Any] = Queue()

    def connect() -> None:
        try:
            answers.put(dask.Client(cluster.address, timeout=ANSWER_SECONDS, security=security))
        except Exception as error:  # noqa: BLE001  # whatever it is, it is told below
            answers.put(error)

    Thread(target=connect, daemon=True).start()
    where = f"No Dask scheduler answers at {cluster.address!r}"
    try:
        found = answers.get(timeout=ANSWER_SECONDS + 1)
    except Empty:
        raise InputError(f"{where} within {ANSWER_SECONDS:g} s, though something listens there: check the address.") from None
    if isinstance(found, Exception):
        hint = "start one, and give its address" if cluster.certificates is None else "check its address and the certificates"
        raise InputError(f"{where} ({type(found).__name__}): {hint}.")
    return found


def _told(error: BaseException, address: str) -> InputError | None:
    """The failure of the cluster as a sentence; None if the error has another cause."""
    again = "start it again, and give the same command, which with --results goes on where it was"
    kind = type(error)
    if isinstance(error, CancelledError) or kind.__name__ in ("CancelledError", "FutureCancelledError", "CommClosedError"):
        return InputError(f"The Dask scheduler at {address!r} was lost: {again}.")
    if kind.__name__ == "KilledWorker":
        return InputError(f"{RETRIES + 1} workers of {address!r} died of one point, perhaps for their memory: give them more.")
    if isinstance(error, (ImportError, AttributeError, pickle.PickleError)):
        reason = printable(" ".join(str(error).split()))
        return InputError(f"Workers of the cluster at {address!r} have another npu-testbed or none ({reason}): install this version there.")
    return None


@contextmanager
def distributed(cluster: Cluster) -> Iterator[Executor]:
    """An executor on a Dask cluster, whose workers have this package, too.

    If a worker dies, another one takes over its task. InputError if Dask is not installed, if no scheduler answers, or if the cluster is
    lost before the end.
    """
    client = _connected(cluster)
    try:
        yield client.get_executor(pure=False, retries=RETRIES)
    except BaseException as error:
        told = _told(error, cluster.address)
        if told is not None:
            raise told from None
        raise
    finally:
        # A lost scheduler is not waited for.
        client.close(timeout=2)
