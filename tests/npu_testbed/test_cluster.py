"""Faults of a Dask cluster are sentences, in bounded time; connections may be encrypted."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from command_line import call, refusal
from test_sweep import space

from npu_model.errors import InputError
from npu_testbed.comparisons.sweeps import cluster
from npu_testbed.comparisons.sweeps.cluster import Cluster, distributed
from npu_testbed.comparisons.sweeps.run import sweep

dask = pytest.importorskip("distributed", reason="Dask is not installed: the extra 'distributed'")

ROOT = Path(__file__).parents[2]
MODEL = "zoo:tiny_conv"
WORDS = ("sweep", MODEL, "--effort", "quick")


@contextmanager
def started(folder: Path, *tls: str, workers: int = 1) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """A scheduler with workers as people start them, and its address."""
    file = folder / "scheduler.json"
    common = ("--no-dashboard", *tls, "--scheduler-file", str(file))
    places = ("--host", "tls://127.0.0.1" if tls else "tcp://127.0.0.1", "--port", "0")
    environment = os.environ | {"PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "ignore"}

    def start(program: str, *words: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "dask", program, *common, *words]
        return subprocess.Popen(command, env=environment, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    processes = [start("scheduler", *places)]
    try:
        deadline = time.monotonic() + 120
        while not file.exists() or not file.read_text().strip().endswith("}"):
            assert time.monotonic() < deadline
            assert processes[0].poll() is None
            time.sleep(0.05)
        processes += [start("worker", "--nthreads", "1", "--no-nanny") for _ in range(workers)]
        yield processes[0], json.loads(file.read_text())["address"]
    finally:
        for process in processes:
            process.kill()
            process.wait()


def test_a_port_that_accepts_and_is_silent_is_refused_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "ANSWER_SECONDS", 1.0)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        begin = time.monotonic()
        sentence = refusal(*WORDS, "--distributed", f"tcp://127.0.0.1:{silent.getsockname()[1]}")
    assert "within 1 s, though something listens there" in sentence
    assert time.monotonic() - begin < 60


def test_a_scheduler_that_is_killed_is_said_to_be_lost(tmp_path: Path) -> None:
    with started(tmp_path, workers=0) as (scheduler, address):

        def kill(_doing: str) -> None:
            scheduler.kill()

        # Without a worker no point is ever done.
        points = space(5200, 6000)
        with pytest.raises(InputError, match=r"The Dask scheduler at .* was lost: start it again, .* --results goes on"):
            sweep(points, cluster=Cluster(address), progress=kill)


def test_what_a_worker_cannot_unpack_is_another_version() -> None:
    told = [cluster._told(error, "a") for error in (ModuleNotFoundError("No module named 'npu_testbed'"), AttributeError("x"))]
    assert all("have another npu-testbed or none" in str(one) for one in told)
    assert cluster._told(ZeroDivisionError(), "a") is None


def certificates(folder: Path) -> tuple[str, ...]:
    """Options of a scheduler, with a certificate that is its own authority."""
    program = shutil.which("openssl")
    if program is None:
        pytest.skip("openssl is not installed")

    words = ("-subj", "/CN=test", "-addext", "subjectAltName=IP:127.0.0.1", "-nodes", "-newkey", "rsa:2048", "-days", "1")
    command = [program, "req", "-x509", *words, "-keyout", "own.key", "-out", "own.pem"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    files = ("--tls-ca-file", "own.pem"), ("--tls-cert", "own.pem"), ("--tls-key", "own.key")
    return tuple(word for option, name in files for word in (option, str(folder / name)))


def test_a_sweep_on_an_encrypted_cluster_answers_as_one_here_and_none_without_certificates(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tls = certificates(tmp_path)
    monkeypatch.setattr(cluster, "ANSWER_SECONDS", 20.0)
    with started(tmp_path, *tls) as (_, address):
        assert address.startswith("tls://")
        there = call(*WORDS, "--json", "--distributed", address, *tls)
        assert there.status == 0, there
        assert there.output == call(*WORDS, "--json", "--jobs", "1").output
        assert "No Dask scheduler answers" in refusal(*WORDS, "--distributed", address)


def test_certificates_that_cannot_be_followed_are_refused(tmp_path: Path) -> None:
    assert "without --distributed" in refusal(*WORDS, "--tls-cert", "x")
    assert "takes --tls-ca-file, --tls-cert and --tls-key" in refusal(*WORDS, "--distributed", "tls://a:1", "--tls-cert", "x")
    files = [word for name in ("ca-file", "cert", "key") for word in (f"--tls-{name}", tmp_path / "none.pem")]
    assert "is not encrypted: write tls://" in refusal(*WORDS, "--distributed", "tcp://a:1", *files)
    assert "cannot be read" in refusal(*WORDS, "--distributed", "tls://a:1", *files)


def test_the_executor_is_dasks_own(tmp_path: Path) -> None:
    with started(tmp_path) as (_, address), distributed(Cluster(address)) as executor:
        assert executor.submit(pow, 2, 5).result(timeout=120) == 32
