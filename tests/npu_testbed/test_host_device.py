"""Programs in C with a device: the example on the host, the library's functions, and the protocol below them."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from command_line import call, refusal
from firmware_builds import make, need, network
from test_firmware import printed

from npu_model.memory.timing_adapter import profile
from npu_model.programmer_registers import register_offsets
from npu_testbed.firmware.serve import ADVANCE, CLOSE, DATA, DONE, FETCH, INTERRUPT, READ, REFUSED, STORE, STORED, WAIT, WRITE, serve

if sys.platform == "win32":
    pytest.skip("the C library needs POSIX pipes", allow_module_level=True)

AT = register_offsets()

_PROGRAM = """
#include "npu_device.h"
#include <stdio.h>
#include <string.h>

static int levels[2];
static void told(void *context, int level) { levels[*(int *)context] += level; }

int main(void)
{
    static uint8_t memory[2][4096] __attribute__((aligned(16)));
    static int names[2] = {0, 1};
    npu_device *npu[2];
    int i;
    for (i = 0; i < 2; ++i) {
        npu[i] = npu_device_open(i ? "ethos-u55-256" : NULL, "off", told, &names[i]);
        if (!npu[i]) return 3;
        printf("%x ", npu_device_read(npu[i], 0x28));
        /* NPU_OP_STOP with a mask of its own. */
        memory[i][2] = (uint8_t)(1 + i);
        printf("%d ", npu_device_map(npu[i], 0x1000, memory[i], sizeof memory[i], 1));
        printf("%d ", npu_device_map(npu[i], 0x1800, memory[i], 16, 1));
        printf("%llx ", (unsigned long long)npu_device_address(npu[i], memory[i] + 32, 64, 1));
        npu_device_write(npu[i], 0x10, 0x1000);
        npu_device_write(npu[i], 0x20, 4);
    }
    for (i = 0; i < 2; ++i) {
        npu_device_write(npu[i], 0x08, 0xD);
        npu_device_wait(npu[i], 1000000);
        printf("%x ", npu_device_read(npu[i], 0x04));
        npu_device_write(npu[i], 0x10, 0x7000000);
        npu_device_write(npu[i], 0x08, 0xF);
        printf("%x ", npu_device_read(npu[i], 0x04));
    }
    i = (int)npu_device_cycle(npu[0]);
    npu_device_advance(npu[0], 100);
    printf("%d ", (int)npu_device_cycle(npu[0]) - i);
    npu_device_access_cycles(npu[0], 7);
    npu_device_read(npu[0], 0);
    printf("%d ", (int)npu_device_cycle(npu[0]) - i);
    printf("%d %d\\n", levels[0], levels[1]);
    npu_device_read(npu[1], 2);
    printf("%s\\n", npu_device_error(npu[1]));
    printf("%s\\n", npu_device_error(npu[0]));
    npu_device_close(npu[0]);
    npu_device_close(npu[1]);
    return 0;
}
"""


@pytest.fixture
def testbed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The command that the library starts."""
    script = tmp_path / "npu-testbed"
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m npu_testbed "$@"\n')
    script.chmod(0o755)
    monkeypatch.setenv("NPU_TESTBED", str(script))
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    return script


@pytest.mark.usefixtures("testbed")
def test_the_example_on_the_host_prints_what_the_example_firmware_prints(tmp_path: Path) -> None:
    need("cc", "gcc")
    need("make", "make")
    network(tmp_path)
    assert call("device", "files", "-o", tmp_path).status == 0
    make(f"NETWORK={tmp_path}", f"BUILD={tmp_path}", f"DEVICE={tmp_path}", "host")
    done = subprocess.run([tmp_path / "host"], capture_output=True, text=True, check=False, timeout=120)
    assert (done.returncode, done.stdout, done.stderr) == (0, printed(tmp_path), "")


@pytest.mark.usefixtures("testbed")
def test_two_devices_of_one_program_have_registers_memory_time_and_interrupts_of_their_own(tmp_path: Path) -> None:
    need("cc", "gcc")
    call("device", "files", "-o", tmp_path)
    (tmp_path / "two.c").write_text(_PROGRAM)
    flags = ["-std=c99", "-D_POSIX_C_SOURCE=200809L", "-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Werror"]
    subprocess.run(["cc", *flags, "-c", "npu_device.c"], check=True, cwd=tmp_path, timeout=60)
    subprocess.run(["cc", "two.c", "npu_device.o", "-o", "two"], check=True, cwd=tmp_path, timeout=60)
    done = subprocess.run([tmp_path / "two"], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done
    first, second, third, _ = done.stdout.split("\n")
    assert first.split() == [
        "1807",
        "0",
        "-1",
        "1020",
        "3008",
        "0",
        "-1",
        "1020",
        "10022",
        "10006",
        "20022",
        "20006",
        "100",
        "107",
        "2",
        "2",
    ]
    assert second == "Offset 0x2 is not a register: multiples of 4 from 0 to 0xffc are."
    assert third == ""


def test_a_library_without_its_command_says_so(tmp_path: Path) -> None:
    need("cc", "gcc")
    call("device", "files", "-o", tmp_path)
    (tmp_path / "two.c").write_text(_PROGRAM)
    subprocess.run(["cc", "two.c", "npu_device.c", "-o", "two"], check=True, cwd=tmp_path, timeout=60)
    done = subprocess.run([tmp_path / "two"], check=False, timeout=60, env={"NPU_TESTBED": str(tmp_path / "nothing"), "PATH": "/usr/bin"})
    assert done.returncode == 3


def test_the_files_are_refused_where_they_cannot_be_written(tmp_path: Path) -> None:
    assert "npu_device" in refusal("device", "files", "-o", tmp_path / "nowhere")


class Host:
    """The other side of the protocol, with 64 bytes of memory at 0x1000."""

    def __init__(self) -> None:
        down, up = os.pipe(), os.pipe()
        self._to, self._from = down[1], up[0]
        system = profile("off").memory_system()
        self._thread = threading.Thread(target=serve, args=("ethos-u55-128", system), kwargs={"incoming": down[0], "outgoing": up[1]})
        self._thread.start()
        self.memory = bytearray(64)
        self.levels: list[int] = []

    def _take(self, count: int) -> bytes:
        found = b""
        while len(found) < count:
            found += os.read(self._from, count - len(found))
        return found

    def ask(self, kind: int, value: int = 0, argument: int = 0) -> tuple[int, int, int]:
        os.write(self._to, struct.pack("<IIQ", kind, value, argument))
        while True:
            found, number, where = struct.unpack("<IIQ", self._take(16))
            inside = where >= 0x1000 and where + number <= 0x1040
            if found == FETCH:
                os.write(self._to, struct.pack("<IIQ", DATA, number if inside else 0xFFFF_FFFF, 0))
                os.write(self._to, self.memory[where - 0x1000 : where - 0x1000 + number] if inside else b"")
            elif found == STORE:
                self._take(number)
                os.write(self._to, struct.pack("<IIQ", STORED, 1, 0))
            elif found == INTERRUPT:
                self.levels.append(number)
            elif found == REFUSED:
                return found, 0, len(self._take(number))
            else:
                assert found == DONE
                return found, number, where

    def close(self, *, politely: bool) -> None:
        if politely:
            os.write(self._to, struct.pack("<IIQ", CLOSE, 0, 0))
        os.close(self._to)
        self._thread.join(20)
        assert not self._thread.is_alive()
        os.close(self._from)


@pytest.mark.parametrize("politely", [True, False])
def test_the_protocol_is_as_its_page_says(politely: bool) -> None:  # noqa: FBT001  # a parameter of the test
    host = Host()
    host.memory[2:4] = b"\x34\x12"
    assert host.ask(READ, 5, AT["CONFIG"]) == (DONE, 0x1807, 5)
    assert host.ask(WRITE, 0x1000, AT["QBASE0"]) == (DONE, 0, 5)
    assert host.ask(WRITE, 4, 2 << 32 | AT["QSIZE"]) == (DONE, 0, 7)
    assert host.ask(WRITE, 0xD, AT["CMD"]) == (DONE, 0, 7)
    kind, _, cycle = host.ask(WAIT, 0, 1 << 60)
    assert kind == DONE
    assert cycle > 7
    assert host.levels == [1]
    assert host.ask(READ, 0, AT["STATUS"])[1] == 0x1234_0022
    assert host.ask(READ, 0, 3)[0] == REFUSED
    assert host.ask(99)[0] == REFUSED
    assert host.ask(ADVANCE, 0, 10) == (DONE, 0, cycle + 10)
    host.close(politely=politely)
