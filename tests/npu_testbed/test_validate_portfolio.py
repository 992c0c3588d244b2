"""``validate portfolio``: what counts as a miss, what is kept, and that one network that fails costs no other its finding."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from asked_for import examine, examine_all, said_memory
from command_line import call, refusal
from msgspec.structs import replace

import npu_testbed.comparisons.comparison
import npu_testbed.portfolio.examination
import npu_testbed.portfolio.run
from cascader.ethosu.search.request import Request
from npu_model.documents import plain, typed
from npu_model.errors import InputError
from npu_testbed.asked.request import requested
from npu_testbed.documents.portfolio import BytesAndCycles, Ours, VelaFigures
from npu_testbed.ground.answers import Answers
from npu_testbed.portfolio.examination import judge
from npu_testbed.portfolio.run import Results, chosen
from npu_testbed.portfolio.tables import page, tables
from npu_testbed.portfolio.verdict import Check, Examined, Report
from npu_testbed.proofs.verification import LITERT, VELA_STREAM, OutputComparison, Verification
from npu_testbed.replays.vela_runs import VelaFailure, VelaRun
from validation.portfolio import NETWORKS, portfolio_network

DEVICE = "ethos-u55-128"
VELA = VelaFigures(BytesAndCycles(1000, 500), "C++", BytesAndCycles(2000, 300), "Python")


def found(
    smallest: tuple[int, int] = (900, 600),
    at_size: tuple[int, int] | None = (1000, 500),
    at_performance: tuple[int, int] | None = (2000, 300),
    **more: Any,
) -> Examined:
    """A finding on mnist, beside Vela Size's 1000 bytes in 500 cycles and Performance's 2000 in 300."""
    points = [None if point is None else BytesAndCycles(*point) for point in (at_size, at_performance)]
    ours = Ours(BytesAndCycles(*smallest), None, *points)
    return Examined("mnist", "named figures", DEVICE, "s", VELA, ours, **({"check": Check.EXACT} | more))


def test_as_many_bytes_and_one_per_cent_more_cycles_are_no_miss() -> None:
    assert found((1000, 505), (1000, 505), (2000, 303)).misses == ()
    assert found((1000, 505), (1000, 505), (2000, 303)).passed


def test_every_bar_that_is_missed_is_named_with_its_figures() -> None:
    assert found((1001, 400), None).misses == ("needs 1,001 bytes, Vela Size 1,000",)
    assert found(at_size=(1000, 506)).misses == ("takes 1.012 of Vela Size's cycles in its 1,000 bytes",)
    assert found(at_performance=(1900, 330)).misses == ("takes 1.100 of Vela Performance's cycles in its 2,000 bytes",)
    assert len(found((2001, 400), None, None).misses) == 2
    assert not found(at_size=(1000, 506)).passed


@pytest.mark.parametrize(
    ("check", "passed"),
    [(Check.EXACT, True), (Check.EXCEPTION, True), (Check.NOT_ASKED, True), (Check.DIFFERS, False), (Check.FAILED, False)],
)
def test_outputs_must_be_those_of_litert_or_differ_as_named(check: Check, passed: bool) -> None:  # noqa: FBT001
    assert found(check=check).passed is passed


def verified(differing: int, *, reference: str = LITERT) -> Verification:
    return Verification("m", 2, 0, (OutputComparison(reference, "y", differing, 100), OutputComparison(VELA_STREAM, "y", 0, 100)))


def test_a_difference_is_an_exception_only_where_the_portfolio_names_one() -> None:
    assert judge(verified(0), "") == (Check.EXACT, "")
    assert judge(verified(0), "wide products") == (Check.EXACT, "")
    check, remark = judge(verified(3), "wide products")
    assert check is Check.EXCEPTION
    assert remark == f"3 of 100 bytes differ from {LITERT}: wide products."
    check, remark = judge(verified(3), "")
    assert check is Check.DIFFERS
    assert remark.startswith(f"3 of 100 bytes differ from {LITERT}. Equal to {VELA_STREAM}")
    assert judge(replace(verified(0, reference="another"), skipped="Not asked."), "")[0] is Check.FAILED


def test_a_finding_is_the_same_after_it_was_written_and_read() -> None:
    findings = (found(), found(at_size=None, check=Check.DIFFERS, remark="r"), Examined("mnist", "g", DEVICE, "s", failure="It fails."))
    for finding in findings:
        assert typed(Examined, plain(finding)) == finding


def test_what_is_kept_is_found_again_for_the_same_question_alone(tmp_path: Path) -> None:
    results, mnist, lenet = Results(tmp_path, True), requested("portfolio:mnist"), requested("portfolio:lenet")
    assert results.find(mnist) is None
    results.write(mnist, found())
    assert results.find(mnist) == found()
    assert results.find(lenet) is None
    others = [requested("portfolio:mnist", "ethos-u55-64"), requested("portfolio:mnist", ask=said_memory(memory_mode="Sram_Only"))]
    others += [replace(mnist, **{name: value}) for name, value in (("spill", "ext"), ("effort", "quick"), ("recompute", Fraction(2)))]
    assert [results.find(other) for other in others] == [None] * 5
    assert Results(tmp_path, False).find(mnist) is None
    results.write(lenet, replace(found(), failure="It fails.", network="lenet"))
    assert results.find(lenet) is None
    Answers(tmp_path).path(results.key(mnist)).write_text("{}", encoding="utf-8")
    assert results.find(mnist) is None


def test_networks_are_chosen_by_name_by_group_and_by_sample() -> None:
    assert chosen() == NETWORKS
    assert [network.name for network in chosen(("mnist*",))] == ["mnist", "mnist_two_pools"]
    assert {network.group for network in chosen(("classifiers", "mnist"))} == {"classifiers", "named figures"}
    assert all(network.sampled for network in chosen(sample=True))
    with pytest.raises(InputError, match="'minst'"):
        chosen(("mnist", "minst"))
    with pytest.raises(InputError, match="leave --sample out"):
        chosen(("abs_at_ends",), sample=True)


Examine = Callable[..., Examined]


@pytest.fixture
def examined(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The networks that were examined, in place of searches: lenet misses a bar, inception raises what nothing expects."""
    asked: list[str] = []

    def instead(request: Request, **_options: Any) -> Examined:
        name, device = request.source.name.removeprefix("portfolio:"), request.device
        asked.append(name)
        if name == "inception":
            raise RuntimeError("it broke")
        return replace(found((1100, 400), None) if name == "lenet" else found(), network=name, accelerator=device)

    monkeypatch.setattr(npu_testbed.portfolio.run, "examine", instead)
    return asked


def test_a_network_that_fails_costs_no_other_its_finding(examined: list[str]) -> None:
    report = examine_all(chosen(("mnist", "inception", "lenet")), processes=1)
    assert examined == ["mnist", "lenet", "inception"]
    assert [finding.network for finding in report.findings] == ["mnist", "lenet", "inception"]
    assert [finding.passed for finding in report.findings] == [True, False, False]
    assert report.findings[2].failure == "Internal error RuntimeError: it broke."
    assert report.missed == (f"lenet on {DEVICE}", f"inception on {DEVICE}")


def test_a_second_run_finds_only_what_is_missing(examined: list[str], tmp_path: Path) -> None:
    some = chosen(("mnist", "inception", "lenet"))
    first = examine_all(some, processes=1, results=tmp_path / "findings")
    second = examine_all(some, processes=1, results=tmp_path / "findings")
    assert examined == ["mnist", "lenet", "inception", "inception"]
    assert first == second


def test_nothing_is_begun_where_a_name_is_wrong(examined: list[str], tmp_path: Path) -> None:
    with pytest.raises(InputError, match="ethos-u99"):
        examine_all(chosen(("mnist",)), processes=1, device="ethos-u99")
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="Folder"):
        examine_all(chosen(("mnist",)), processes=1, results=tmp_path / "file")
    assert examined == []


def test_a_report_of_nothing_does_not_pass() -> None:
    assert not Report(()).passed
    assert Report((found(),)).passed


def test_every_miss_and_every_failure_stands_under_the_table() -> None:
    wrong = replace(found(), network="lenet", check=Check.DIFFERS, remark="3 bytes differ.")
    report = Report((found((1100, 400), None), wrong, Examined("espcn", "dense outputs", DEVICE, "s", failure="It fails.")))
    (table,) = tables(report)
    assert [row[0] for row in table.rows] == ["mnist", "lenet", "espcn"]
    text = table.text()
    assert "mnist needs 1,100 bytes, Vela Size 1,000." in text
    assert "lenet differs: 3 bytes differ." in text
    assert "espcn fails: It fails." in text
    assert "3 networks: 0 pass, 1 miss a bar, 1 fail; 1 of 2 verified bit by bit, 0 differ as named." in text


def test_the_page_has_the_totals_the_misses_and_a_table_for_each_group() -> None:
    named = replace(found(), network="classifier_int16", group="number formats", check=Check.EXCEPTION, remark="As named.")
    other = replace(found(), accelerator="ethos-u55-32")
    text = page(Report((found((1100, 400), None), named, other)))
    headings = [line for line in text.splitlines() if line.startswith("#")]
    assert headings == [
        "# Portfolio",
        f"## {DEVICE}, s",
        "### Misses",
        "### Named figures",
        "### Number formats",
        "### Remarks",
        "## ethos-u55-32, s",
        "### Misses",
        "### Named figures",
        "## What each network stands for",
    ]
    assert "- mnist needs 1,100 bytes, Vela Size 1,000." in text
    assert "| mnist | 1,000 / 500 | 2,000 / 300 | 1,100 (1.100) | none fits | 300 (1.000) | exact |" in text
    assert "- None." in text
    assert "- classifier_int16: As named." in text
    assert "- `mnist`: Keras' MNIST example" in text


def test_schedules_of_velas_that_are_left_out_for_one_reason_stand_together() -> None:
    one = found()
    assert one.vela is not None
    failures = ("Vela Size (Python core): it fails: early", "Vela Performance (Python core): it fails: early", "Vela Size (C++ core): late")
    text = page(Report((replace(one, vela=replace(one.vela, failures=failures)),)))
    assert "- mnist: left out, Vela Size (Python core) and Vela Performance (Python core): it fails: early" in text
    assert "- mnist: left out, Vela Size (C++ core): late" in text


def test_no_line_of_the_pages_prose_is_wider_than_120_characters() -> None:
    named = replace(found(), check=Check.EXCEPTION, remark="As named, at length. " * 10)
    lines = page(Report((named,))).splitlines()
    assert "- mnist: As named, at length. As named, at length." in "\n".join(lines)
    assert max(len(line) for line in lines if not line.startswith("|")) <= 120


def test_the_command_prints_every_finding_and_its_status_tells_of_a_miss(examined: list[str], tmp_path: Path) -> None:
    outcome = call("validate", "portfolio", "mnist", "--jobs", 1, "--page", tmp_path / "page.md")
    assert outcome.status == 0
    assert "Portfolio beside Vela, ethos-u55-128" in outcome.output
    assert (tmp_path / "page.md").read_text(encoding="utf-8").startswith("# Portfolio\n")
    outcome = call("validate", "portfolio", "mnist", "lenet", "--jobs", 1, "--json", "--accelerator-config", "ethos-u55-32")
    assert outcome.status == 1
    document = json.loads(outcome.output)
    assert document["missed"] == ["lenet on ethos-u55-32"]
    assert [network["passed"] for network in document["networks"]] == [True, False]
    assert examined == ["mnist", "mnist", "lenet"]


def test_the_list_names_networks_and_compares_nothing(examined: list[str]) -> None:
    outcome = call("validate", "portfolio", "--list")
    assert outcome.status == 0
    assert all(network.name in outcome.output for network in NETWORKS)
    document = json.loads(call("validate", "portfolio", "--list", "--sample", "--json").output)
    assert [network["name"] for network in document["networks"]] == [network.name for network in NETWORKS if network.sampled]
    assert examined == []


def test_a_wrong_name_a_wrong_page_and_a_wrong_device_are_refused() -> None:
    assert "'minst'" in refusal("validate", "portfolio", "minst")
    assert "is a directory" in refusal("validate", "portfolio", "mnist", "--page", ".")
    assert "ethos-u99" in refusal("validate", "portfolio", "mnist", "--accelerator-config", "ethos-u99")


def test_one_network_is_compared_and_verified_in_full() -> None:
    pytest.importorskip("ai_edge_litert", reason="LiteRT (ai-edge-litert) is not installed")
    finding = examine("crop_rows", DEVICE)
    assert finding.failure == ""
    assert finding.check is Check.EXACT
    assert finding.vela is not None
    assert finding.ours is not None
    assert 64 <= finding.ours.smallest.memory <= finding.vela.size.memory
    assert finding.ours.in_size_bytes is not None


def test_a_comparison_that_cannot_be_made_is_a_finding_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_arguments: object, **_options: object) -> None:
        raise InputError("Vela does not like it: change it.")

    monkeypatch.setattr(npu_testbed.portfolio.examination, "compare", refuse)
    finding = examine("mnist", DEVICE)
    assert (finding.vela, finding.failure) == (None, "Vela does not like it: change it.")


NO_STREAM = "Vela fails on both of its cores, so that there is nothing to compare with. C++ core: It crashed. Python core: It is slow."


def fail_everywhere(monkeypatch: pytest.MonkeyPatch, **how: bool) -> list[VelaRun]:
    """Vela's cores fail whatever they are asked; ``how`` says how the Python core does. The runs that were asked for are gathered."""
    asked: list[VelaRun] = []

    def fail(_: object, runs: Sequence[VelaRun], *__: object, **___: object) -> tuple[tuple[()], tuple[VelaFailure, ...]]:
        asked.extend(runs)
        failed = {
            "C++": VelaFailure(VelaRun("C++", "Size"), "It crashed."),
            "Python": VelaFailure(VelaRun("Python", "Size"), "It is slow.", **how),
        }
        return (), tuple(replace(failed[run.core], run=run) for run in runs)

    monkeypatch.setattr(npu_testbed.comparisons.comparison, "vela_points", fail)
    return asked


@pytest.mark.parametrize(("how", "said"), [({"ended": False}, NO_STREAM), ({"is_limit": True}, "It is slow.")])
def test_a_core_that_was_ended_and_a_limit_of_ours_are_failures_and_no_peers_that_fail(
    monkeypatch: pytest.MonkeyPatch, how: dict[str, bool], said: str
) -> None:
    fail_everywhere(monkeypatch, **how)
    finding = examine("crop_rows", DEVICE)
    assert (finding.vela, finding.no_peer, finding.failure) == (None, "", said)


def test_what_neither_core_of_vela_makes_rightly_is_scheduled_and_verified_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pytest.importorskip("ai_edge_litert", reason="LiteRT (ai-edge-litert) is not installed")

    crashes = fail_everywhere(monkeypatch)
    finding = examine("crop_rows", DEVICE)
    assert crashes
    assert (finding.vela, finding.failure, finding.no_peer) == (None, "", NO_STREAM)
    assert finding.ours is not None
    assert finding.ours.in_size_bytes is None
    assert finding.check is Check.EXACT
    assert finding.passed
    results = Results(tmp_path, True)
    results.write(requested("portfolio:crop_rows"), finding)
    assert results.find(requested("portfolio:crop_rows")) == finding
    (table,) = tables(Report((finding,)))
    assert table.rows == (("crop_rows", "none valid", "none valid", f"{finding.ours.smallest.memory:,}", "-", "-", "exact"),)
    text = " ".join(table.text().split())
    assert "Of 1 of them neither of Vela's cores makes a valid stream." in text
    assert f"crop_rows: no valid stream of Vela's. {NO_STREAM}" in text


@pytest.mark.parametrize(
    ("check", "passed"),
    [(Check.EXACT, True), (Check.EXCEPTION, True), (Check.NOT_ASKED, False), (Check.DIFFERS, False), (Check.FAILED, False)],
)
def test_without_a_stream_of_velas_it_is_the_outputs_that_count(check: Check, passed: bool) -> None:  # noqa: FBT001
    finding = replace(found(check=check), vela=None, no_peer=NO_STREAM)
    assert finding.passed is passed


def test_a_network_that_litert_cannot_run_is_compared_and_not_verified(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = replace(portfolio_network("crop_rows"), unverifiable="LiteRT has no such kernel")
    monkeypatch.setattr(npu_testbed.portfolio.examination, "portfolio_network", lambda _: entry)
    finding = examine("crop_rows", DEVICE)
    assert finding.ours is not None
    assert (finding.check, finding.remark) == (Check.EXCEPTION, "Not verified: LiteRT has no such kernel.")


def test_a_schedule_that_cannot_be_verified_keeps_its_comparison(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_arguments: object, **_options: object) -> None:
        raise InputError("It runs SVDF on the CPU.")

    monkeypatch.setattr(npu_testbed.portfolio.examination, "verify", refuse)
    finding = examine("crop_rows", DEVICE)
    assert finding.ours is not None
    assert (finding.check, finding.remark) == (Check.FAILED, "It runs SVDF on the CPU.")
    assert not finding.passed


@pytest.mark.usefixtures("every_search_runs")
def test_two_processes_find_what_one_finds(tmp_path: Path) -> None:
    some = chosen(("concat_rows", "crop_rows"))
    both = examine_all(some, processes=2, verified=False, results=tmp_path)
    assert [finding.network for finding in both.findings] == ["concat_rows", "crop_rows"]
    assert not any(finding.failure for finding in both.findings)
    assert both.findings[1] == examine("crop_rows", DEVICE, verified=False)
    assert len(list(tmp_path.iterdir())) == 2
