"""Large arguments of calls are sent to a process once, and it has those that came last, as the sender knows."""

from __future__ import annotations

import os
import pickle
import sys
import threading
from collections.abc import Callable

import pytest

from cascader.search.shared_arguments import MOST_SHARED, SharedArguments, sent
from cascader.search.workers import begin, workers


class Trunk:
    """A shared argument that counts how often it is packed and unpacked."""

    def __init__(self, label: str) -> None:
        self.label = label
        self.packings = 0
        self.opened = 0

    def packed(self) -> tuple[Callable[[bytes], object], bytes]:
        self.packings += 1
        return _trunk, self.label.encode()


def _trunk(content: bytes) -> Trunk:
    return Trunk(content.decode())


def opened(trunk: Trunk, times: int) -> tuple[str, int, int]:
    """Open a trunk some times more: its label, how often it was opened in this process, and the process."""
    trunk.opened += times
    return trunk.label, trunk.opened, os.getpid()


def test_a_process_is_sent_a_shared_argument_once_and_keeps_what_it_did_with_it() -> None:
    with workers(2, takes_part=True) as executor:
        trunks = [Trunk("one"), Trunk("two")]
        found = [[executor.submit(opened, trunk, 1) for trunk in trunks] for _ in range(3)]
        answers = [[answer.result() for answer in some] for some in found]
    here = os.getpid()
    for number, trunk in enumerate(trunks):
        there = [count for _, count, process in (some[number] for some in answers) if process != here]
        assert there == list(range(1, len(there) + 1))
        assert trunk.packings == (1 if there else 0)
    assert sum(trunk.packings for trunk in trunks) > 0


def test_a_shared_argument_that_had_to_go_is_sent_again() -> None:
    with workers(1 + 1) as executor:
        lines = [Trunk(str(number)) for number in range(2 * (MOST_SHARED + 1))]
        for trunk in (*lines, *lines):
            assert executor.submit(opened, trunk, 0).result()[0] == trunk.label
    assert all(trunk.packings == 2 for trunk in lines)


@pytest.mark.parametrize("order", [[0, 1, 0, 2], [*range(MOST_SHARED), 0, MOST_SHARED, 0, 1], [*range(MOST_SHARED + 1), 0]])
def test_sender_and_receiver_count_alike(order: list[int]) -> None:
    ours, theirs = SharedArguments(), SharedArguments()
    for number in order:
        label = str(number)
        assert ours.has(label) == theirs.has(label)
        ours.take(label, lambda: None)
        theirs.take(label, object)


def test_small_arguments_are_sent_as_they_are() -> None:
    assert [sent(one, SharedArguments()) for one in (1, "a", None)] == [1, "a", None]
    assert len(pickle.dumps(sent(Trunk("x"), SharedArguments()))) < 500


def nothing() -> None:
    """The first call of a process."""


@pytest.mark.skipif(sys.platform != "linux", reason="processes are copies on Linux alone")
def test_a_late_process_has_what_was_done_with_a_shared_argument_before_it_began() -> None:
    trunk, here = Trunk("late"), os.getpid()
    for thread in threading.enumerate():
        if thread is not threading.main_thread() and not thread.daemon:
            thread.join()  # an earlier test's processes end, and while any such thread lives no process is a copy
    with workers(2, takes_part=True, late=True) as executor:
        assert [executor.submit(opened, trunk, 1).result()[1:] for _ in range(3)] == [(1, here), (2, here), (3, here)]
        assert begin(executor, [trunk], nothing)
        assert not begin(executor, [trunk], nothing)
        asked = [executor.submit(opened, trunk, 1) for _ in range(4)]
        there = [count for _, count, process in (answer.result() for answer in asked) if process != here]
    assert there == list(range(4, 4 + len(there))) != []
    assert trunk.packings == 0


@pytest.mark.parametrize("processes", [1, 3])
def test_only_the_second_of_two_processes_begins_late(processes: int) -> None:
    with workers(processes, takes_part=True, late=True) as executor:
        assert not begin(executor, [Trunk("early")], nothing)
