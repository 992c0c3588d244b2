"""The register file of a device: reset values, access rules, and that no sequence of accesses leaves them."""

from __future__ import annotations

import random

import pytest
from device_driver import AT
from hypothesis import given, settings
from hypothesis import strategies as st

from npu_model.errors import InputError
from npu_model.memory.timing_adapter import profile
from npu_model.programmer_registers import RegisterAccess, registers
from sim.device import BufferBus, Device

DEVICES = ("ethos-u55-32", "ethos-u55-128", "ethos-u55-256", "ethos-u65-256")
MOVES_ITSELF = {"STATUS", "QREAD", "PROT", "PMCCNTR_LO", "PMCCNTR_HI", "PMOVSSET", "PMOVSCLR"} | {f"PMEVCNTR{i}" for i in range(4)}
"""Registers that change without being written."""


def device(name: str = "ethos-u55-128") -> tuple[Device, BufferBus]:
    bus = BufferBus({0: bytes(256), 0x1000: bytearray(4096)})
    return Device(name, profile("u55_high_end").memory_system(), bus), bus


@pytest.mark.parametrize("name", DEVICES)
def test_every_register_has_its_reset_value_after_power_on_and_after_a_soft_reset(name: str) -> None:
    npu, _ = device(name)
    for _ in range(2):
        assert {register.name: npu.read(register.offset) for register in registers(name)} == {
            register.name: register.reset for register in registers(name)
        }
        for register in registers(name):
            if register.name not in ("CMD", "RESET"):
                npu.write(register.offset, 0xFFFF_FFFF)
        npu.write(AT["RESET"], 0)


@pytest.mark.parametrize(("name", "config"), [("ethos-u55-32", 0x1005), ("ethos-u55-64", 0x1006), ("ethos-u55-256", 0x3008)])
def test_config_says_macs_and_shram(name: str, config: int) -> None:
    assert device(name)[0].read(AT["CONFIG"]) == config


def test_registers_do_not_overlap_and_fields_fit_their_word() -> None:
    for name in DEVICES:
        offsets = [register.offset for register in registers(name)]
        assert len(set(offsets)) == len(offsets)
        for register in registers(name):
            masks = [field.mask for field in register.fields]
            assert sum(masks) < 1 << 32
            assert sum(mask.bit_count() for mask in masks) == sum(masks).bit_count()
            assert register.reset >> 32 == 0


def test_the_u55_has_addresses_of_32_bits_and_the_u65_of_40() -> None:
    for name, kept in (("ethos-u55-128", 0), ("ethos-u65-256", 0xFF)):
        npu, _ = device(name)
        for register in ("QBASE1", "BASEP1", "BASEP15"):
            npu.write(AT[register], 0xFFFF_FFFF)
            assert npu.read(AT[register]) == kept


@given(
    name=st.sampled_from(DEVICES),
    writes=st.lists(st.tuples(st.integers(0, 1023), st.integers(0, (1 << 32) - 1)), max_size=40),
)
@settings(max_examples=200, deadline=None)
def test_after_any_writes_a_register_holds_what_its_access_rules_leave(name: str, writes: list[tuple[int, int]]) -> None:
    npu, _ = device(name)
    held = {register.name: register.reset for register in registers(name)}
    sets = {"PMCNTEN": 0, "PMINT": 0}
    at = {register.offset: register for register in registers(name)}
    for word, written in writes:
        value = written & ~1 if 4 * word == AT["CMD"] else written  # a run is another test's
        npu.write(4 * word, value)
        register = at.get(4 * word)
        if register is None:
            continue
        if register.name == "RESET":
            held = {one.name: one.reset for one in registers(name)} | {"RESET": value & 3}
            sets = dict.fromkeys(sets, 0)
        elif register.access in (RegisterAccess.SET, RegisterAccess.CLEAR):
            bits, group = value & register.mask(register.access), register.name[:-3]
            if group in sets:
                sets[group] = sets[group] | bits if register.access is RegisterAccess.SET else sets[group] & ~bits
        else:
            kept = register.mask(RegisterAccess.READ_WRITE)
            held[register.name] = held[register.name] & ~kept | value & kept
    for register in registers(name):
        group = register.name[:-3]
        expected = sets[group] if group in sets else held[register.name]
        if register.name not in MOVES_ITSELF:
            assert npu.read(register.offset) == expected, register.name
    every = set(range(0, 4096, 4)) - set(at)
    assert all(npu.read(offset) == 0 for offset in random.Random(1).sample(sorted(every), 50))


def allowed(npu: Device, bus: BufferBus) -> None:
    """Check what the specification says of STATUS at any time."""
    status = npu.read(AT["STATUS"])
    running, irq, abort, resetting, parse, end, pmu_irq = (status >> bit & 1 for bit in range(7))
    assert status >> 7 & 15 == 0
    assert running == npu.is_running
    assert not resetting
    assert bus.raised == bool(irq or pmu_irq)
    assert running + abort + parse + end <= 1
    assert abort or status >> 11 & 31 == 0
    assert npu.read(AT["QREAD"]) % 4 == 0
    assert npu.read(AT["PMCCNTR_HI"]) >> 16 == 0


def test_ten_thousand_random_sequences_leave_a_state_that_the_specification_allows() -> None:
    generator = random.Random(43)
    often = [AT[name] for name in ("CMD", "RESET", "QBASE0", "QSIZE", "PMCR", "PMCNTENSET", "PMCCNTR_CFG", "PMINTSET", "BASEP2")]
    words = [0, 1, 2, 3, 0xD, 0xE, 0x1D, 16, 64, 0x1000, 0xFFFF_FFFF, 0xFFFF_FFF0]
    npu, bus = device()
    for sequence in range(10_000):
        if not sequence % 100:
            npu, bus = device(generator.choice(DEVICES))
        for _ in range(generator.randrange(1, 12)):
            offset = generator.choice(often) if generator.random() < 0.7 else 4 * generator.randrange(1024)
            if generator.random() < 0.3:
                npu.read(offset)
            else:
                npu.write(offset, generator.choice(words) if generator.random() < 0.7 else generator.getrandbits(32))
            if generator.random() < 0.2:
                npu.advance(generator.randrange(1000))
        allowed(npu, bus)


@pytest.mark.parametrize("offset", [-4, 2, 4096, 1 << 40])
def test_what_is_no_word_of_the_file_is_refused(offset: int) -> None:
    npu, _ = device()
    with pytest.raises(InputError, match=r"is not a register: multiples of 4 from 0 to 0xffc are"):
        npu.read(offset)
    with pytest.raises(InputError, match="is not a register"):
        npu.write(offset, 0)


def test_time_does_not_run_backwards() -> None:
    with pytest.raises(InputError, match="0 or more are needed"):
        device()[0].advance(-1)
