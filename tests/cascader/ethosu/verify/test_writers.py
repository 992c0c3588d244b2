"""The check of writers keeps, for each reader, the writers of what it reads, and of no other byte of the tensor."""

from __future__ import annotations

import numpy as np
import pytest

from cascader.ethosu.verify.windows import Span
from cascader.ethosu.verify.writers import _Meant

WRITERS = np.arange(1000, dtype=np.int32)


@pytest.mark.parametrize(
    ("spans", "kept"),
    [
        ([Span.run(100, 4)], 4),
        ([Span.run(100, 4), Span(110, (2, 3), (40, 4), 2, 0)], 60),
        ([Span.run(0, 1000)], 1000),
        ([], 0),
    ],
)
def test_a_reader_has_the_writers_of_its_own_bytes(spans: list[Span], kept: int) -> None:
    meant = _Meant.of(spans, WRITERS)
    assert len(meant.writers) == kept
    for span in spans:
        assert (meant.at(span) == span.of(WRITERS)).all()


def test_a_later_writer_does_not_change_what_an_earlier_reader_found() -> None:
    writers = WRITERS.copy()
    meant = _Meant.of([Span.run(10, 2)], writers)
    writers[:] = -1
    assert meant.at(Span.run(11, 1)).tolist() == [11]
