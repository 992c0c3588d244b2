"""The whole validation suite as one scorecard: the FVP's counters, the calibration, Vela's memory, LiteRT's bytes."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from npu_model.errors import InputError
from npu_testbed.ground.progress import Progress, silent
from npu_testbed.proofs.peers import validate_litert, validate_vela, zoo_models
from validation.calibrate import reference_profile
from validation.calibrate.calibration import GENERALISES
from validation.fvp.scorecard import scorecard
from validation.fvp.scores import worst_error
from validation.litert.judge import litert_installed
from validation.silicon.programs import vela_api
from validation.silicon.records import counted_runs
from validation.silicon.scores import READS_OFF, STEADY, counters_missed, differences, reads_off
from validation.tables import Table, share

CCNTR_LIMIT = 0.03
"""Absolute error of any difference in cycles between two runs on silicon, with the memories as free parameters."""

_JITTER = "13 runs took up to 700 cycles more than those around them, for no more work; without them the worst is 4.5 %"

BLIND = (
    "no counter of a single layer or stall is public, so that totals may hide errors that cancel",
    "networks of 16 bits, with look-up tables, transposed convolutions or upscaling were never measured",
    "one cascade was measured, on one network and one configuration",
    "silicon is one chip and one kind of kernel, on memories that are chosen to fit",
    "the points of the FVP were in view while the rules were chosen, those of the Ethos-U65 most of all",
)
"""Places where no figure of the suite would show an error."""


class Promise(Struct, frozen=True):
    """One bar of the suite: the peer, the figure, its bound and the result over ``count`` cases.

    ``passed`` is None for a promise that could not be checked, with the reason in ``found``. A promise without a case is missed. ``known``
    is the reason for a known miss.
    """

    peer: str
    figure: str
    bound: str
    found: str
    count: int
    passed: bool | None
    known: str = ""

    @property
    def verdict(self) -> str:
        """The verdict as a cell of a table."""
        if self.passed is None:
            return "not checked"
        return "passed" if self.passed else "MISSED, known" if self.known else "MISSED"


class Suite(Struct, frozen=True):
    """All promises, in the order of the peers."""

    promises: tuple[Promise, ...]

    @property
    def passed(self) -> bool:
        """Whether no promise is missed except the known misses. A promise that could not be checked is not missed."""
        return all(promise.passed is not False or promise.known for promise in self.promises)


def _none(peer: str, figure: str, missed: int, count: int) -> Promise:
    """A promise that every case keeps."""
    return Promise(peer, figure, "0", str(missed), count, count > 0 and missed == 0)


def _fvp(progress: Progress) -> list[Promise]:
    card = scorecard(lambda done, total: progress(f"Replaying measured streams: {done} of {total}"))
    return [
        Promise("fvp", bar.what, share(bar.limit), share(bar.value), bar.count, bar.passed, "" if bar.fails else bar.known)
        for bar in card.bars
    ]


def silicon_promises(progress: Progress) -> list[Promise]:
    """Counters of the MAC array, and cycles as differences between runs."""
    counters = "runs with another MAC_ACTIVE or MAC_DPU_ACTIVE than silicon's"
    progress("Rebuilding the kernels that ran on silicon")
    try:
        vela_api()
    except InputError as error:
        return [Promise("silicon", counters, "0", str(error), 0, None)]
    missed, found = counters_missed(), differences()
    promises = [_none("silicon", counters, len(missed), len(counted_runs()))]
    reads = sum(abs(off) > READS_OFF for off in reads_off())
    promises.append(_none("silicon", f"runs more than {READS_OFF} AXI0 read transactions off", reads, len(reads_off())))
    for where, least, known in ((f"from {STEADY} input channels on", STEADY, ""), ("of all runs", 0, _JITTER)):
        errors = [difference.error for difference in found if difference.inputs >= least]
        worst = abs(worst_error(errors))
        figure = f"worst error of differences of cycles {where}"
        promises.append(Promise("silicon", figure, share(CCNTR_LIMIT), share(worst), len(errors), worst <= CCNTR_LIMIT, known))
    return promises


def _calibration() -> Promise:
    """The extra error on left-out networks, as the built-in profile records it (``npu-testbed calibrate check`` verifies the profile)."""
    fitted = reference_profile()
    held_out = fitted.held_out("network")
    ratio = held_out.mean / fitted.errors.mean
    passed = held_out.count > 0 and ratio <= GENERALISES
    figure = "mean error of a network left out of the fit, times that in sample"
    return Promise("calibrate", figure, f"{GENERALISES:.2f}", f"{ratio:.2f}", held_out.count, passed)


def _litert(models: Sequence[str], progress: Progress) -> Promise:
    figure = "schedules with output bytes unlike LiteRT's for no known reason"
    if not litert_installed():
        return Promise("litert", figure, "0", "LiteRT is not installed: pip install 'npu-testbed[numerics]'", 0, None)
    scores = validate_litert(models, optimise=("Size",), progress=progress)
    return _none("litert", figure, sum(not score.passed for score in scores), len(scores))


def validate_all(models: Sequence[str] = (), progress: Progress = silent) -> Suite:
    """Every peer over ``models`` (paths or ``zoo:NAME``; the whole zoo if none), on the ethos-u55-128.

    The FVP's counters belong to the measured streams and do not depend on the models. InputError if a model cannot be read or compiled.
    """
    sources = tuple(models) or zoo_models()
    vela = validate_vela(sources, progress=progress)
    return Suite(
        (
            *_fvp(progress),
            *silicon_promises(progress),
            _calibration(),
            _none("vela", "schedules whose SRAM differs from Vela's for no known reason", sum(not s.passed for s in vela), len(vela)),
            _litert(sources, progress),
        )
    )


def suite_table(suite: Suite) -> Table:
    """The scorecard as one table."""
    rows = tuple((p.peer, p.figure, p.bound, p.found, str(p.count), p.verdict) for p in suite.promises)
    missed = sum(promise.passed is False for promise in suite.promises)
    note = f"{missed} of {len(rows)} bars are missed. Agreement with the FVP is agreement with Arm's simulator, not silicon."
    blind = f"Blind: {'; '.join(BLIND)}."
    reasons = tuple(f"Known, {p.figure}: {p.known}." for p in suite.promises if p.passed is False and p.known)
    return Table("The validation suite", ("peer", "figure", "bar", "found", "cases", "verdict"), rows, (note, *reasons, blind))
