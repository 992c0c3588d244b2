"""Runs of an FVP: the binary and the firmware are found, and each run is a bounded process."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from importlib import metadata
from pathlib import Path

from msgspec import Struct

from cascader.frontends.folders import own_folder
from npu_model.errors import InputError

BINARIES = ("FVP_Corstone_SSE-300_Ethos-U55", "VHT_Corstone_SSE-300_Ethos-U55")
"""Names of Arm's Corstone-300 binary with an Ethos-U55, as downloads install it."""

RUNNERS = "mlia-ethos-u"
"""Distribution on PyPI whose wheel holds ready firmware (Arm, Apache-2.0)."""

MODEL_ADDRESS = 0x90000000
"""The address at which that firmware expects the compiled .tflite: the DDR of the Corstone-300."""

TIMEOUT_SECONDS = 900.0
"""Bound of one run: Arm's evaluation kit quotes up to 7 minutes for one inference."""

MAX_LOG_BYTES = 64 << 20
_POLL_SECONDS = 0.05
_QUOTED = 200


class FvpOptions(Struct, frozen=True):
    """Programs and options of a run. ``binary`` None looks in PATH, ``firmware`` None into the package of ready runners.

    ``model_address`` is where the firmware expects the compiled file, None if the network is built into it. ``trace`` asks for the PMU
    trace, ``arguments`` go to the FVP unchanged, ``events`` name the firmware's numbered counters. ``timeout`` in seconds.
    """

    binary: Path | None = None
    firmware: Path | None = None
    model_address: int | None = MODEL_ADDRESS
    trace: bool = True
    arguments: tuple[str, ...] = ()
    events: tuple[str, ...] = ()
    timeout: float = TIMEOUT_SECONDS


class FvpRun(Struct, frozen=True):
    """Output of a run: its log, and its PMU trace (None if it wrote none)."""

    log: str
    trace: bytes | None


def find_binary(path: Path | None) -> Path:
    """The FVP's binary; InputError if it is missing."""
    if path is not None:
        if not path.is_file() or not os.access(path, os.X_OK):
            raise InputError(f"FVP {str(path)!r} is not a file that can be run: give the path of the binary itself.")
        return path.resolve()
    for name in BINARIES:
        found = shutil.which(name)
        if found is not None:
            return Path(found).resolve()
    raise InputError(
        f"No FVP is in PATH (looked for {' and '.join(BINARIES)}): install Arm's Corstone-300 FVP, which is free, or give its path "
        f"with --fvp. A run also needs firmware that prints the PMU's counters: pass --firmware, or install the package {RUNNERS}."
    )


def find_firmware(path: Path | None) -> Path:
    """The firmware to run: a file, or a Corstone-300 Ethos-U55 runner of the package of ready ones; InputError if there is none."""
    if path is not None:
        if not path.is_file():
            raise InputError(f"Firmware {str(path)!r} is not a file: give the path of an .axf.")
        return path.resolve()
    try:
        files = metadata.files(RUNNERS) or []
    except metadata.PackageNotFoundError:
        files = []
    runners = [file for file in files if file.suffix == ".axf" and _fits(file.as_posix().lower())]
    # The package has one runner per framework; the compiled file is a .tflite, which TFLite Micro reads.
    for file in sorted(runners, key=lambda file: ("executorch" in file.as_posix().lower(), file.as_posix())):
        return Path(str(file.locate())).resolve()
    raise InputError(f"No firmware was given and no runner of {RUNNERS} is installed: give the path of an .axf, or install that package.")


def _fits(name: str) -> bool:
    return "300" in name and "u55" in name


def command(binary: Path, firmware: Path, macs: int, options: FvpOptions, model: Path, trace: Path) -> list[str]:
    """The command line of a run: serial output to standard output, no window, ended by the firmware's last character."""
    settings = [
        f"ethosu.num_macs={macs}",
        "mps3_board.visualisation.disable-visualisation=1",
        "mps3_board.telnetterminal0.start_telnet=0",
        "mps3_board.uart0.out_file=-",
        "mps3_board.uart0.shutdown_on_eot=1",
    ]
    if options.trace:
        settings.append(f"ethosu.extra_args=--pmu-trace {trace}")
    line = [str(binary), "-a", str(firmware)]
    if options.model_address is not None:
        line += ["--data", f"{model}@{options.model_address:#x}"]
    return [*line, *(part for setting in settings for part in ("-C", setting)), *options.arguments]


def _end(process: subprocess.Popen[bytes]) -> None:
    """Stop the process and its children."""
    if hasattr(os, "killpg"):
        os.killpg(process.pid, signal.SIGKILL)
    else:
        process.kill()
    process.wait()


def _watch(process: subprocess.Popen[bytes], log: Path, timeout: float) -> int:
    """Wait for the process; InputError if it runs too long or prints too much."""
    deadline = time.monotonic() + timeout
    while True:
        try:
            return process.wait(_POLL_SECONDS)
        except subprocess.TimeoutExpired:
            size = log.stat().st_size
        if size > MAX_LOG_BYTES or time.monotonic() > deadline:
            _end(process)
            if size > MAX_LOG_BYTES:
                raise InputError(f"The FVP wrote more than {MAX_LOG_BYTES} bytes of log: check the firmware.")
            raise InputError(f"The FVP did not finish within {timeout:g} s: give more time, a smaller network, or firmware that ends.")


def _check_status(status: int, text: str) -> None:
    if status < 0:
        raise InputError(f"The FVP crashed with signal {-status}: check that it runs on this system.")
    if status:
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        says = repr(lines[-1][:_QUOTED]) if lines else "nothing"
        raise InputError(f"The FVP ended with status {status} and says {says}: check its licence, the firmware and the arguments.")


def run_fvp(compiled: bytes, macs: int, options: FvpOptions) -> FvpRun:
    """Run one compiled network on an FVP with ``macs`` MACs per cycle.

    InputError if the binary or the firmware is missing, or if the run fails, crashes, hangs or prints without end.
    """
    binary, firmware = find_binary(options.binary), find_firmware(options.firmware)
    with own_folder() as folder:
        model, trace, log = folder / "network_vela.tflite", folder / "pmu_trace.json.gz", folder / "log.txt"
        model.write_bytes(compiled)
        line = command(binary, firmware, macs, options, model, trace)
        with log.open("wb") as file:
            try:
                process = subprocess.Popen(  # noqa: S603  # the user names the binary, and no shell reads the line
                    line, cwd=folder, stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT, start_new_session=True
                )
            except OSError as error:
                raise InputError(f"The FVP {binary.name} cannot be started ({error.strerror}): check the binary.") from None
            try:
                status = _watch(process, log, options.timeout)
            except BaseException:
                if process.poll() is None:
                    _end(process)
                raise
        text = log.read_bytes().decode("utf-8", errors="replace")
        _check_status(status, text)
        return FvpRun(text, trace.read_bytes() if trace.is_file() else None)
