"""Pages that show commands show what these print today."""

from __future__ import annotations

import os
import re
import shlex
import shutil
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest
from doc_pages import DOCS, calls, commands, is_shown, pages, true_page

import npu_testbed
from npu_testbed.commands.cli import build_parser
from sim import Unit

ROOT = DOCS.parent
LINKING = (*sorted(DOCS.rglob("*.md")), *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")))

NEEDS = {"board.md": "scipy", "fit.md": "ai_edge_litert", "replace-vela.md": "ai_edge_litert", "tutorial.md": "ai_edge_litert"}
"""Modules of extras without which a page's commands print something else."""


@pytest.mark.skipif(os.environ.get("NPU_TESTBED_ALL") != "1", reason="`tox -e measured` runs the commands of all pages")
@pytest.mark.parametrize("page", pages())
def test_a_page_shows_what_its_commands_print(page: str) -> None:
    if page in NEEDS:
        pytest.importorskip(NEEDS[page], reason="an extra is not installed")
    text = (DOCS / page).read_text(encoding="utf-8")
    if "\n$ vela " in text and shutil.which("vela") is None:
        pytest.skip("Vela's command is not on the path")
    assert true_page(text) == text, f"`PYTHONPATH=.:tests python tests/doc_pages.py --write {page}` writes it anew"


def test_pages_that_a_newcomer_reads_have_commands_that_are_run() -> None:
    assert {"fit.md", "gate.md", "python.md", "replace-vela.md", "tutorial.md", "which-chip.md", "why-slow.md"} <= set(pages())


@pytest.mark.parametrize("page", pages())
def test_every_command_that_is_run_is_one_that_the_parser_takes(page: str) -> None:
    for block in re.findall(r"^```console\n(.*?)^```", (DOCS / page).read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE):
        for command, _ in commands(block):
            for words in calls(command):
                assert callable(build_parser().parse_args(words).asked.load)


def test_every_command_of_every_page_parses() -> None:
    count = 0
    for path in DOCS.glob("*.md"):
        for block in re.findall(r"^```(?:sh|text)\n(.*?)^```", path.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE):
            for line in re.findall(r"^(?:\$ )?npu-testbed (.*?)(?:\s+#.*)?$", block.replace("\\\n", " "), re.MULTILINE):
                if line.startswith(("-", "0.")) or re.search(r"[|&<>…\[]|\.\.\.|^[A-Z]", line):
                    continue
                count += 1
                assert callable(build_parser().parse_args(shlex.split(line)).asked.load), line
    assert count > 15


def test_lines_may_be_left_out_and_none_may_be_changed() -> None:
    lines = ["a", "b", "c", "d"]
    assert is_shown(lines, lines)
    assert is_shown(["a", "...", "d"], lines)
    assert is_shown(["...", "b", "...", "d"], lines)
    assert not is_shown(["a", "b", "c"], lines)
    assert not is_shown(["a", "...", "x"], lines)
    assert not is_shown(["...", "d", "...", "a", "..."], lines)


def test_a_page_that_says_something_else_is_written_anew() -> None:
    text = "<!-- file: a.txt -->\n```text\nfirst\nsecond\n```\n\n```console\n$ cat a.txt \\\n    | tail -n 1\n{}```\n"
    assert true_page(text.format("wrong\n")) == text.format("second\n")
    with pytest.raises(AssertionError, match="none"):
        true_page(text.format("").replace("a.txt \\", "none \\").replace("| tail", "&& tail"))


def test_the_drawing_of_the_simulator_has_every_unit() -> None:
    drawing = (DOCS / "simulator.svg").read_text(encoding="utf-8")
    names = {unit.value for unit in Unit}
    assert {name for name in names if f">{name}<" in drawing} == names


def test_the_page_on_the_simulator_shows_the_timeline_of_the_tests() -> None:
    golden = (DOCS.parent / "tests" / "golden" / "timeline.txt").read_text(encoding="utf-8")
    assert golden in (DOCS / "simulator.md").read_text(encoding="utf-8")


def test_the_index_leads_to_every_page() -> None:
    index = (DOCS / "index.md").read_text(encoding="utf-8")
    pages = [path.relative_to(DOCS).as_posix() for path in (*DOCS.glob("*.md"), *DOCS.glob("decisions/*.md"))]
    assert [page for page in pages if f"]({page})" not in index and page != "index.md"] == []


def test_pages_are_few_and_short() -> None:
    """At most 32 pages of 5,500 lines in all, decisions aside: merge or shorten others before a page is added."""
    lines = {path.name: path.read_text(encoding="utf-8").count("\n") for path in DOCS.glob("*.md")}
    assert [path for path in DOCS.rglob("*.md") if path.parent not in {DOCS, DOCS / "decisions"}] == []
    assert len(lines) <= 32
    assert sum(lines.values()) <= 5500


def test_every_page_is_in_the_navigation_of_the_site() -> None:
    navigation = (DOCS.parent / "mkdocs.yml").read_text(encoding="utf-8")
    pages = [path.relative_to(DOCS).as_posix() for path in (*DOCS.glob("*.md"), *DOCS.glob("decisions/*.md"))]
    assert [page for page in pages if f" {page}\n" not in navigation] == []


def hook(name: str) -> ModuleType:
    """A module of docs/, which is no package."""
    spec = spec_from_file_location(name, DOCS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def anchors(page: Path) -> set[str]:
    """The anchors that the headings of a page give, as GitHub and the site make them."""
    titles = re.findall(
        r"^#+ (.*)$", re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE), re.MULTILINE
    )
    return {re.sub(r"[^\w -]", "", title.lower()).strip().replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", LINKING, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_link_of_a_page_leads_to_a_file_and_to_a_heading_of_it(page: Path) -> None:
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    for target, anchor in re.findall(r"\]\((?!https?:)([^)#\s]*)(?:#([^)\s]+))?\)", text):
        path = (page.parent / target).resolve() if target else page
        assert path.exists(), f"{page}: {target}"
        assert not anchor or anchor in anchors(path), f"{page}: {target}#{anchor}"


def test_every_old_page_is_gone_and_leads_to_a_page_that_is_there(tmp_path: Path) -> None:
    pytest.importorskip("mkdocs", reason="mkdocs is not installed")
    site = hook("site_pages")
    found = site.redirects((DOCS / "index.md").read_text(encoding="utf-8"))
    assert len(found) > 25
    assert {old: new for old, new in found.items() if (DOCS / old).exists() or not (DOCS / new).exists()} == {}
    site.on_post_build({"site_dir": str(tmp_path)})
    assert 'url=../gate.html"' in (tmp_path / "stories" / "ci-and-boards.html").read_text(encoding="utf-8")


def test_the_reference_opens_with_a_line_for_each_verb() -> None:
    pytest.importorskip("mkdocs", reason="mkdocs is not installed")
    site = hook("site_pages")
    named = [name for name in npu_testbed.__all__ if name not in {"VERSION", "Error", "Figures"}]
    assert sorted(site.verbs()) == sorted(named)
    lines = site.api_index().splitlines()
    for name, (ask, said) in site.verbs().items():
        (line,) = (line for line in lines if line.startswith(f"- [`{name}`](npu_testbed.commands.md#{ask}): "))
        assert said
        assert line.endswith(".")


def test_examples_in_docstrings_are_code_on_the_site() -> None:
    pytest.importorskip("griffe", reason="griffe is not installed: it comes with mkdocstrings")
    text = hook("site_docstrings").readable("See :func:`a.b`.\n\n>>> f(1)\n[1]\n\nMore.")
    assert text == "See `a.b`.\n\n\n```python\n>>> f(1)\n[1]\n```\n\nMore."
