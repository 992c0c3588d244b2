"""The tables of Vela's debug database: some columns are those of the rows, and what is no CSV has none."""

from __future__ import annotations

import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cascader.frontends.vela.debug_database import DatabaseTable, by_command, read_tables, table

CELLS = st.text(st.sampled_from('ab,"\n '), max_size=4)
NAMES = ("id", "name", "operator")


@given(st.lists(st.lists(CELLS, min_size=1, max_size=4), max_size=4), st.permutations((*NAMES, "time")))
def test_columns_are_those_of_the_rows(lines: list[list[str]], names: list[str]) -> None:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([NAMES, *lines])
    found = DatabaseTable(text.getvalue())
    assert found.columns(*names) == [tuple(row.get(name, "") for name in names) for row in found]
    assert len(found) == len([line for line in lines if line])


def document(**bodies: str) -> str:
    return "".join(f'<table name="{name}">\n<![CDATA[\n{body}\n]]>\n</table>\n' for name, body in bodies.items())


def test_tables_are_found_by_their_names() -> None:
    tables = read_tables(document(queue="offset\n4", perf="id\n7\n8"))
    assert {name: [dict(row) for row in rows] for name, rows in tables.items()} == {
        "queue": [{"offset": "4"}],
        "perf": [{"id": "7"}, {"id": "8"}],
    }
    assert len(table(tables, "tensors")) == 0


@pytest.mark.parametrize("text", ["", "<table>", '<table name="queue"><![CDATA[offset'])
def test_what_does_not_end_is_no_table(text: str) -> None:
    assert not read_tables(text)


def test_a_table_that_is_no_csv_has_no_rows() -> None:
    longest = csv.field_size_limit()
    broken = read_tables(document(queue=f"offset\n4\n{(longest + 1) * 'x'}"))["queue"]
    assert broken.columns("offset") == []
    assert len(broken) == 0


def test_kernel_commands_are_told_apart_by_their_streams() -> None:
    rows = "offset,cmdstream_id,scheduled_id\n8,2,a\n8,1,b\nx,1,c\n12,1,d"
    assert by_command(read_tables(document(queue=rows)), "scheduled_id") == ({8: "b", 12: "d"}, {8: "a"})
