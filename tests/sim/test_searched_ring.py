"""The ring that the search finds for the convolution of examples.tiled_convolution: the same bytes, and no more cycles than by hand."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from test_tiled_convolution import convolved, image

from cascader.ethosu.verify.check import check_schedule
from examples.searched_ring import RING, found, main, program
from examples.tiled_convolution import CHANNELS, IMAGE, RESULT, Chip, binding, external_bytes, memory_system
from npu_model.accelerator import DEFAULT_ACCELERATOR
from npu_model.errors import InputError
from npu_model.program import Program
from sim import footprint, quick_replay, replay
from sim.functional.execute import execute
from sim.functional.memory import RegionBytes

pytestmark = pytest.mark.law

SIDE = 64
CHIP = Chip.of(DEFAULT_ACCELERATOR)


@cache
def by_hand(rows: int) -> Program:
    return RING.build(CHIP, SIDE, 1, rows)


def cycles(made: Program) -> int:
    return quick_replay(made, memory_system()).cycles


@pytest.mark.parametrize("rows", [2, 4, 8])
def test_the_search_finds_a_ring_no_slower_than_the_one_built_by_hand_in_no_more_bytes(rows: int) -> None:
    room = footprint((by_hand(rows),), (), ()).peak
    choice = found(CHIP, SIDE, room)
    assert choice.point.memory <= room
    assert choice.point.cycles == cycles(program(choice)) <= cycles(by_hand(rows))


def test_more_room_than_a_ring_needs_makes_the_convolution_no_slower() -> None:
    """The copies of constants and the transfers take one copier by turns, which the search counts."""
    in_a_ring, unbounded = found(CHIP, SIDE, 21_600).point, found(CHIP, SIDE).point
    assert unbounded.cycles <= in_a_ring.cycles * 1.01
    assert unbounded.memory < SIDE * SIDE * CHANNELS


def test_the_ring_of_the_search_is_checked_replays_alike_and_computes_what_numpy_does() -> None:
    choice = found(CHIP, SIDE, 21_600)
    check_schedule(choice.point.schedule)
    made = program(choice)
    assert replay(made, memory_system()).cycles == choice.point.cycles
    memory = RegionBytes(made)
    memory.place(binding("image", IMAGE, SIDE + 2), image(SIDE))
    execute(made, memory)
    assert np.array_equal(np.asarray(memory.fetch(binding("result", RESULT, SIDE))), convolved(SIDE))


def test_it_loads_and_stores_every_byte_once() -> None:
    assert external_bytes(program(found(CHIP, SIDE, 21_600))) == external_bytes(by_hand(4))


def test_from_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--side", "32", "--rows", "4"])
    titles = [line.split("  ")[0] for line in capsys.readouterr().out.splitlines()[2:]]
    assert titles == ["by hand, bands of 4 rows", "found by the search"]
    with pytest.raises(InputError, match="--side 32 is not a multiple of --rows 5"):
        main(["--side", "32", "--rows", "5"])
