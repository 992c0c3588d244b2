"""Firmware on an emulated core: the example prints what the NPU computes and counts, and exceptions are as the architecture has them."""

from __future__ import annotations

import re
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from command_line import call, refusal
from firmware_builds import by_hand, compiled, elf, make, need, network
from test_json_schemas import require_valid

from cascader.ethosu.codegen.lowering import lower
from npu_testbed.firmware import FirmwareRun, load_chip, run_firmware
from npu_testbed.firmware.chip import parse_chip
from npu_testbed.replays.scheduling import read_schedule
from npu_testbed.replays.simulation import simulate_schedule
from sim.functional import run
from sim.functional.regions import numpy_dtype

pytest.importorskip("unicorn", reason="the emulator unicorn is not installed: the extra 'device'")

CHIP = Path("npu_testbed/firmware/chips/corstone-300.toml")


def sequence(count: int) -> bytes:
    """The bytes that the example's main.c makes its inputs of."""
    value, found = 1, bytearray()
    for _ in range(count):
        value = (value * 1664525 + 1013904223) & 0xFFFF_FFFF
        found.append(value >> 24)
    return bytes(found)


def printed(folder: Path) -> str:
    """The example's print-out for the schedule in a folder, from the functional run and the replay."""
    plan = read_schedule(folder / "network.json")
    compiled_network = lower(plan)
    left = sequence(sum(binding.size for binding in compiled_network.inputs))
    inputs = []
    for binding in compiled_network.inputs:
        inputs.append(np.frombuffer(left[: binding.size], numpy_dtype(binding.dtype)).reshape(binding.shape))
        left = left[binding.size :]
    outputs = run(compiled_network, inputs)
    lines = [f"output {name}: {values.tobytes().hex(' ')}" for name, values in outputs.items()]
    (replay,) = simulate_schedule(plan).replay.replays
    counts = replay.pmu()
    names = ("NPU_ACTIVE", "AXI0_RD_DATA_BEAT_RECEIVED", "AXI0_WR_DATA_BEAT_WRITTEN", "AXI1_RD_DATA_BEAT_RECEIVED", "MAC_ACTIVE")
    return "\n".join([*lines, *(f"{name}: {counts[name]}" for name in names)]) + "\n"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the example built for both platforms as far as compilers are there."""
    need("arm-none-eabi-gcc", "gcc-arm-none-eabi libnewlib-arm-none-eabi")
    need("make", "make")
    folder = tmp_path_factory.mktemp("firmware")
    network(folder)
    make(f"NETWORK={folder}", f"BUILD={folder}", folder / "firmware.elf")
    return folder


def test_the_example_firmware_prints_the_functional_runs_bytes_and_the_replays_counts(built: Path) -> None:
    outcome = call("device", "run", built / "firmware.elf", "--chip", "corstone-300")
    assert outcome.status == 0, outcome
    assert outcome.output.startswith(printed(built))
    assert re.search(r"^NPU 0: [\d,]+ cycles from cycle [\d,]+ on, end of the stream$", outcome.output, re.MULTILINE)
    assert re.search(r"^corstone-300: exit code 0 after [\d,]+ core cycles$", outcome.output, re.MULTILINE)


def test_its_document_is_as_published_and_the_same_every_time(built: Path) -> None:
    document = require_valid("device run", built / "firmware.elf")
    assert document == require_valid("device run", built / "firmware.elf")
    assert document["passed"]
    assert f"NPU_ACTIVE: {document['npu_runs'][0]['cycles']}\n" in document["output"]


def test_another_accelerator_is_refused_by_the_firmware(built: Path, tmp_path: Path) -> None:
    chip = tmp_path / "other.toml"
    chip.write_text(CHIP.read_text().replace("ethos-u55-128", "ethos-u55-64"))
    outcome = call("device", "run", built / "firmware.elf", "--chip", chip)
    assert outcome.status == 1
    assert "job 0: result 2," in outcome.output
    assert "exit code 1" in outcome.output


def test_an_arena_in_memory_of_the_core_alone_is_a_bus_abort(built: Path, tmp_path: Path) -> None:
    chip = tmp_path / "blind.toml"
    chip.write_text(CHIP.read_text().replace("size = 0x400000\n", "size = 0x400000\nnpu = false\n"))
    document = require_valid("device run", built / "firmware.elf", "--chip", chip)
    assert "job 0: result 4, STATUS 0x" in document["output"]
    assert "Bus abort on AXI0: no memory has the" in document["npu_runs"][0]["ending"]
    assert not document["passed"]


def test_the_npus_clock_is_its_own(built: Path, tmp_path: Path) -> None:
    chip = tmp_path / "slow.toml"
    text = CHIP.read_text()
    npu = text.index("[npu]")
    chip.write_text(text[:npu] + text[npu:].replace("clock_hz = 32_000_000", "clock_hz = 8_000_000"))
    slow, usual = (require_valid("device run", built / "firmware.elf", "--chip", one) for one in (chip, "corstone-300"))
    assert slow["output"] == usual["output"]
    cycles = usual["npu_runs"][0]["cycles"]
    assert slow["npu_runs"][0]["cycles"] == cycles
    assert slow["core_cycles"] - usual["core_cycles"] == pytest.approx(3 * cycles, abs=8 * 1000)


_HEAD = """
#include <stdint.h>
#define UART (*(volatile uint32_t *)0x49303000)
#define REG(address) (*(volatile uint32_t *)(address))
static void put(const char *text) { while (*text) UART = (uint8_t)*text++; }
static void number(uint32_t value) { char text[11]; int i = 10; text[i] = 0;
    do { text[--i] = '0' + value % 10; value /= 10; } while (value); put(text + i); UART = '\\n'; }
static void end(void) { UART = 4; for (;;) { } }
void entry(void);
#pragma weak on_svc
#pragma weak on_pendsv
#pragma weak on_tick
#pragma weak on_irq
void on_svc(void); void on_pendsv(void); void on_tick(void); void on_irq(void);
__attribute__((section(".vectors"), used)) static const void *const vectors[16 + 57] = {
    [0] = (void *)0x20080000, [1] = entry, [11] = on_svc, [14] = on_pendsv, [15] = on_tick, [16 + 56] = on_irq};
__attribute__((used)) void *memcpy(void *to, const void *from, unsigned size)
{ unsigned char *a = to; const unsigned char *b = from; while (size--) *a++ = *b++; return to; }
"""


def runs(source: str, folder: Path, *options: str, seconds: float = 1) -> FirmwareRun:
    return run_firmware(compiled(_HEAD + source, folder, *options), load_chip("corstone-300"), Fraction(seconds))


def test_an_exception_keeps_every_register_wherever_it_comes(tmp_path: Path) -> None:
    """SysTick interrupts a checksum of integers, flags, floats and IT blocks hundreds of times; it comes out the same."""
    source = """
    volatile uint32_t ticks;
    void on_tick(void) { volatile float a = ticks; volatile uint32_t x[8]; for (int i = 0; i < 8; ++i) x[i] = i * a; ticks++; }
    __attribute__((noinline)) static uint32_t checksum(uint32_t seed) {
        uint32_t a = seed, b = 1; float f = 1.0f, g = 0.5f;
        for (int i = 0; i < 30000; ++i) {
            a = a * 1664525u + 1013904223u; if ((int32_t)a < 0) b += a >> 3; else b ^= a; if (b & 1) b -= 7;
            f = f * 1.0001f + g; g = f > 100.0f ? -g : g + 0.001f; if (f < -50.0f) f = 1.0f; b += (uint32_t)(int32_t)f;
            uint64_t w = (uint64_t)a + ((uint64_t)b << 31); b ^= (uint32_t)(w >> 32);
        }
        return b;
    }
    void entry(void) {
        REG(0xE000ED88) |= 0xF << 20; ticks = 0;
        volatile uint32_t seed = 1; uint32_t quiet = checksum(seed);
        REG(0xE000E014) = 1232; REG(0xE000E018) = 0; REG(0xE000E010) = 7;
        uint32_t disturbed = checksum(seed);
        REG(0xE000E010) = 0;
        put(quiet == disturbed ? "same " : "different "); number(ticks); end();
    }
    """
    result = runs(source, tmp_path, "-mcpu=cortex-m33", "-mfloat-abi=hard", "-mfpu=fpv5-sp-d16")
    text, ticks = result.output.decode().split()
    assert (text, result.stopped) == ("same", "")
    assert int(ticks) > 300


def test_threads_on_the_process_stack_are_switched_by_pendsv(tmp_path: Path) -> None:
    source = """
    static uint32_t stacks[2][256]; static uint32_t *saved[2]; static volatile int now, rounds;
    __attribute__((naked)) void on_pendsv(void) {
        __asm volatile("mrs r0, psp\\n stmdb r0!, {r4-r11, lr}\\n bl switch_stacks\\n ldmia r0!, {r4-r11, lr}\\n msr psp, r0\\n bx lr");
    }
    __attribute__((used)) uint32_t *switch_stacks(uint32_t *top) { saved[now] = top; now ^= 1; return saved[now]; }
    static void yield(void) { REG(0xE000ED04) = 1u << 28; __asm volatile("dsb\\n isb"); while (!(rounds & 0x100)) { if (now >= 0) break; } }
    static void one(void) { for (int i = 0; i < 3; ++i) { put("a"); rounds++; yield(); for (volatile int j = 0; j < 2000; ++j) { } }
        put("\\n"); end(); }
    static void two(void) { for (;;) { put("b"); yield(); for (volatile int j = 0; j < 2000; ++j) { } } }
    void on_svc(void) { put("svc "); }
    void entry(void) {
        uint32_t *top = &stacks[1][200];
        for (int i = 0; i < 18; ++i) top[i] = 0;
        top[8] = 0xFFFFFFFD; top[15] = (uint32_t)two; top[16] = 1 << 24;
        saved[1] = top;
        REG(0xE000ED20) = 0xFFu << 16;
        __asm volatile("msr psp, %0\\n movs r0, #2\\n msr control, r0\\n isb" : : "r"(&stacks[0][250]) : "r0");
        __asm volatile("svc 0");
        one();
    }
    """
    result = runs(source, tmp_path)
    assert result.output == b"svc ababab\n", result


def test_priorities_and_masks_decide_what_is_taken_first(tmp_path: Path) -> None:
    source = """
    void on_irq(void) { put("i"); REG(0xE000ED04) = 1u << 28; put("I"); }
    void on_pendsv(void) { put("p"); }
    void entry(void) {
        REG(0xE000ED20) = 0xE0u << 16; REG(0xE000E104) = 1u << 24; REG(0xE000E438) = 0x40;
        __asm volatile("cpsid i"); REG(0xE000E204) = 1u << 24; for (volatile int j = 0; j < 3000; ++j) { } put("m");
        __asm volatile("cpsie i"); for (volatile int j = 0; j < 3000; ++j) { }
        uint32_t level = 0x40; __asm volatile("msr basepri, %0" : : "r"(level));
        REG(0xE000E204) = 1u << 24; for (volatile int j = 0; j < 3000; ++j) { } put("b");
        level = 0; __asm volatile("msr basepri, %0" : : "r"(level)); for (volatile int j = 0; j < 3000; ++j) { }
        REG(0xE000E184) = 1u << 24; REG(0xE000E204) = 1u << 24; for (volatile int j = 0; j < 3000; ++j) { }
        put(REG(0xE000E284) >> 24 & 1 ? "pending" : "lost"); end();
    }
    """
    assert runs(source, tmp_path).output == b"miIpbiIppending"


def test_a_sleep_costs_the_time_until_the_next_tick_and_no_instructions(tmp_path: Path) -> None:
    source = """
    volatile uint32_t ticks;
    void on_tick(void) { ticks++; }
    void entry(void) { ticks = 0; REG(0xE000E014) = 3199999; REG(0xE000E018) = 0; REG(0xE000E010) = 7; uint32_t before = REG(0xE0001004);
        while (ticks < 5) __asm volatile("wfi"); number((REG(0xE0001004) - before) / 100000); end(); }
    """
    result = runs(source, tmp_path)
    assert result.output == b"160\n"
    assert 16_000_000 <= result.core_cycles < 16_010_000


def test_helium_is_refused_by_the_name_of_what_is_missing(tmp_path: Path) -> None:
    source = 'void entry(void) { __asm volatile(".word 0x0b10eea0"); end(); }'
    result = runs(source, tmp_path)
    assert result.exit_code is None
    assert "Helium is not emulated" in result.stopped


# -- without a compiler

PRINT_A = by_hand(0x4801, 0x2141, 0x6001, 0xBEAB, data=(0x4930_3000,))
"""ldr r0, UART; movs r1, #'A'; str r1, [r0]; bkpt 0xAB, which finds a wrong semihosting number in R0."""


def hand_run(content: bytes, folder: Path, seconds: float = 0.01) -> FirmwareRun:
    path = folder / "hand.elf"
    path.write_bytes(content)
    return run_firmware(path, load_chip("corstone-300"), Fraction(seconds))


def test_semihosting_ends_the_firmware_with_its_code(tmp_path: Path) -> None:
    done = by_hand(0x2018, 0x4901, 0xBEAB, 0xE7FE, data=(0x20026,))
    failed = by_hand(0x2020, 0x4901, 0xBEAB, 0xE7FE, data=(0x50, 0, 0x20026, 7))
    assert hand_run(done, tmp_path).exit_code == 0
    assert hand_run(failed, tmp_path).exit_code == 7


@pytest.mark.parametrize(
    ("instructions", "data", "stopped"),
    [
        ((0xE7FE,), (), "the firmware has not ended in 0.01 s of its own time"),
        ((0x4800, 0x6801), (0x9000_0000,), "at 0x00000042 the firmware reads 0x90000000 (4 bytes), where the chip has no memory"),
        ((0x4800, 0x6001), (0x9000_0000,), "writes 0x90000000 (4 bytes), where the chip has no writable memory"),
        ((0x4800, 0x4700), (0x9000_0001,), "runs code at 0x90000000"),
        ((0xDE00,), (), "meets the instruction de00"),
        ((0xBE00,), (), "runs into a breakpoint that no semihosting call is"),
        ((0xBF30, 0xE7FD), (), "has not ended in 0.01 s"),
    ],
)
def test_firmware_that_cannot_go_on_says_where(instructions: tuple[int, ...], data: tuple[int, ...], stopped: str, tmp_path: Path) -> None:
    result = hand_run(by_hand(*instructions, data=data), tmp_path)
    assert result.exit_code is None
    assert stopped in result.stopped


def test_the_command_ends_with_status_1_and_the_reason(tmp_path: Path) -> None:
    (tmp_path / "loop.elf").write_bytes(by_hand(0xE7FE))
    outcome = call("device", "run", tmp_path / "loop.elf", "--time-limit", "0.001")
    assert outcome.status == 1
    assert outcome.output == "corstone-300: the firmware has not ended in 0.001 s of its own time after 32,000 core cycles\n"


def test_data_lies_in_memory_from_the_start(tmp_path: Path) -> None:
    (tmp_path / "print.elf").write_bytes(
        by_hand(0x4803, 0x4904, 0x780A, 0x600A, 0x6002, 0x2204, 0x6002, 0xE7FE, data=(0x4930_3000, 0x6200_0000))
    )
    (tmp_path / "data.bin").write_bytes(b"Z")
    outcome = call("device", "run", tmp_path / "print.elf", "--data", f"{tmp_path / 'data.bin'}@0x62000000")
    assert outcome.output.startswith("Z\n"), outcome
    assert outcome.status == 0
    assert "has no address" in refusal("device", "run", tmp_path / "print.elf", "--data", tmp_path / "data.bin")
    assert "no memory of the chip corstone-300" in refusal(
        "device", "run", tmp_path / "print.elf", "--data", f"{tmp_path / 'data.bin'}@0x90000000"
    )


@pytest.mark.parametrize("chip", ["corstone-300", "corstone-300-m55"])
def test_memory_is_written_to_a_file_once_the_firmware_has_ended(chip: str, tmp_path: Path) -> None:
    """str r0, [r0] at 0x21000000, then byte 4 to the UART: the word lies there. A run that does not end by itself writes no file."""
    if chip.endswith("m55"):
        need("qemu-system-arm", "qemu-system-arm")
    uart = 0x4930_3000
    (tmp_path / "a.elf").write_bytes(by_hand(0x4803, 0x6000, 0x4903, 0x2201, 0x608A, 0x2204, 0x600A, 0xE7FE, data=(0x2100_0000, uart)))
    dump = f"{tmp_path / 'a.bin'}@0x21000000,4"
    outcome = call("device", "run", tmp_path / "a.elf", "--chip", chip, "--dump", dump, "--time-limit", "30")
    assert outcome.status == 0, outcome
    assert (tmp_path / "a.bin").read_bytes() == (0x2100_0000).to_bytes(4, "little")
    (tmp_path / "a.bin").unlink()
    (tmp_path / "loop.elf").write_bytes(by_hand(0xE7FE))
    assert call("device", "run", tmp_path / "loop.elf", "--chip", chip, "--dump", dump, "--time-limit", "0.5").status == 1
    assert not (tmp_path / "a.bin").exists()


@pytest.mark.parametrize(
    ("dump", "sentence"),
    [
        ("a.bin", "--dump 'a.bin' names no memory: give FILE@ADDRESS,SIZE"),
        ("a.bin@0x21000000,0", "names no memory"),
        ("a.bin@0x213ffffc,8", "no memory of the chip corstone-300 has them"),
        ("a.elf@0x21000000,8", "is the input"),
    ],
)
def test_a_dump_that_cannot_be_is_refused_before_the_run(dump: str, sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.elf").write_bytes(by_hand(0xE7FE))
    assert sentence in refusal("device", "run", "a.elf", "--dump", dump)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "bad.elf' has 0 bytes"),
        (b"MZ", "not a 32-bit little-endian ELF file"),
        (b"\x7fELF\x02\x01" + bytes(60), "not a 32-bit little-endian ELF file"),
        (elf((0, bytes(64)), machine=62), "for machine 62"),
        (elf(), "0 program headers"),
        (elf((0, bytes(64)))[:-8], "a segment ends at byte"),
        (elf((0x9000_0000, bytes(64))), "no memory of the chip corstone-300 has room"),
        (elf((0, bytes(64))), "The vector table at 0x0 begins with 0x0 and 0x0"),
    ],
)
def test_what_is_no_firmware_is_refused_in_one_sentence(content: bytes, sentence: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.elf"
    path.write_bytes(content)
    assert sentence in refusal("device", "run", path)


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ('cpu = "cortex-m33"', 'cpu = "cortex-m55"', "has 'cortex-m55' at core.cpu where one of cortex-m0,"),
        ("interrupt = 56", "interrupt = 4096", "has 4096 at npu[0].interrupt where an integer from 0 to 479 is needed"),
        ("interrupt = 56", "", "at npu[0] where the key 'interrupt' is needed"),
        ("interrupt = 56", "interrupt = 56\nirq = 1", "has 'irq' at npu[0] where one of the keys"),
        ("ethos-u55-128", "ethos-u55-1024", "ethos-u55-1024"),
        (
            "[0x48102000, 0x58102000]",
            "[0x48102004]",
            "at npu[0].addresses[0] where a multiple of 4096 from 0 to 4294963200 is needed",
        ),
        ("[0x48102000, 0x58102000]", "[]", "has [] at npu[0].addresses where a list of 1 or more is needed"),
        ("[0x48102000, 0x58102000]", "[0x21000000]", "lies in the NPU at 0x21000000 to 0x21001000"),
        ("[0x48102000, 0x58102000]", "[0xE000E000]", "lies in"),
        ("size = 0x400000", "size = 0x400001", "where a multiple of 4096 from 4096 to 536870912 is needed"),
        ("size = 0x4000000", "size = 0x40000000", "where a multiple of 4096 from 4096 to 536870912 is needed"),
        ("npu = false", "npu = 0", "where true or false is needed"),
        ('timing_adapter = "u55_high_end"', "", "timing_adapter, or by system_config"),
        ('timing_adapter = "u55_high_end"', 'timing_adapter = "other"', "other"),
        ('kind = "cmsdk"', 'kind = "16550"', "has '16550' at uart[0].kind where one of cmsdk, pl011 is needed"),
        ('name = "corstone-300"', "name = ", "is not TOML"),
        ('name = "corstone-300"', "name = " + "9" * 6000, "is not TOML"),
        ('name = "corstone-300"', "name = " + "[" * 5000 + "]" * 5000, "is not TOML"),
        ('name = "SRAM"\naddresses = [0x21000000,', r'name = "a\nb\u001b[2J"' + "\naddresses = [0x20000000,", r"a\nb\x1b[2J at"),
        ("[uart]", r'["a\u001b"]', r"has 'a\x1b' at its top where one of the keys"),
        ("[uart]", "[serial]", "has 'serial' at its top where one of the keys core, npu, uart, memory, name is needed"),
        ("[core]", "[[core]]", "at core where a table is needed"),
    ],
)
def test_a_chip_that_makes_no_sense_is_refused_in_one_sentence(old: str, new: str, sentence: str, tmp_path: Path) -> None:
    text = CHIP.read_text()
    assert old in text
    chip = tmp_path / "chip.toml"
    chip.write_text(text.replace(old, new))
    (tmp_path / "a.elf").write_bytes(PRINT_A)
    assert sentence in refusal("device", "run", tmp_path / "a.elf", "--chip", chip)


def test_an_unknown_chip_is_refused_with_the_known_ones(tmp_path: Path) -> None:
    assert "choose corstone-300, corstone-300-m55, or give a .toml file" in refusal(
        "device", "run", tmp_path / "a.elf", "--chip", "unknown"
    )


def test_a_chip_by_name_gives_its_accelerator_and_its_memories() -> None:
    text = CHIP.read_text().replace('accelerator = "ethos-u55-128"', 'chip = "alif-e7-hp"').replace('timing_adapter = "u55_high_end"', "")
    (npu,) = parse_chip("other", text).npus
    assert npu.accelerator == "ethos-u55-256"
    assert "Alif_E7_HP" in npu.memory_system.name


def test_a_pl011_and_vela_configurations_are_read() -> None:
    text = CHIP.read_text().replace('kind = "cmsdk"', 'kind = "pl011"')
    system = 'system_config = "Ethos_U55_Deep_Embedded"\nmemory_mode = "Sram_Only"'
    chip = parse_chip("other", text.replace('timing_adapter = "u55_high_end"', system))
    assert chip.uarts[0].kind == "pl011"
    assert chip.npus[0].memory_system.clock_hz == 200_000_000
