"""The page ``docs/accuracy.md``: how far the timing model agrees with the published FVP counters.

python -m validation.fvp.accuracy > docs/accuracy.md
"""

from __future__ import annotations

from validation.fvp.bearers import bearers_table, u55_bearers, u65_bearers
from validation.fvp.scorecard import CLAIM, Scorecard, render, scorecard

_HEAD = f"""# Accuracy of the timing model

**{CLAIM}** The reference is the Corstone FVP, Arm's own model of the NPU, which
is cycle-approximate itself. Of silicon, counters of one chip are public: 289 fully connected kernels on an Alif
Ensemble E7. They decided nothing here; [PMU events](pmu.md) has them beside ours.

This page is written by `python -m validation.fvp.accuracy > docs/accuracy.md`; a test holds it to what the model does
today. The same figures come from `npu-testbed validate fvp`. Everything that they need is in the package: the published
counters, each with its source, and the command streams that were measured. The streams are the text form of their
Programs, with the decoder's work for each weight stream in place of the weights.

Figures published by the project Kwon-GiHwan/mps4_prototyping_board (commit c5450807): three networks, four MAC
configurations, timing adapters on (Corstone-300, profile `u55_high_end`) and off (Corstone-310). All networks are
8-bit; 16-bit, LUT-heavy and transposed convolution networks have no public cycle counts, and accuracy on them is
unproven. Per-layer and per-stall truth is not public either; the beats per port are the check that totals do not hide
errors that cancel.

One network of small kernels is held to the time of its whole run, among them the only public measurement of a cascade.
Twelve inferences of the same three networks on an Ethos-U65 are classes of their own, and so are three streams of older
Velas.

A few constants were chosen by looking at these very points, so the errors below are those of a calibration set, not of
a blind test: `docs/decisions/0003-timing-model.md` names them and shows what each is worth. Nothing was fitted by a
program. Operators that no measured network has are held against Vela's estimate instead
(`tests/sim/test_unit_cycles.py`), which is no measurement.
"""


def accuracy_page(card: Scorecard) -> str:
    """The page as Markdown, from a finished scorecard, but for the last table."""
    return "\n".join([_HEAD, *(table.markdown() for table in render(card))])


def main() -> None:
    """Replay the references and print the page; the last table takes a minute."""
    borne = bearers_table((*u55_bearers(), *u65_bearers())).markdown()
    print("\n".join([accuracy_page(scorecard()), borne]), end="")  # noqa: T201  # this script exists to print the page


if __name__ == "__main__":
    main()
