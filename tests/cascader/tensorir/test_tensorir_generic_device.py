"""The example of a device of one's own runs as its page says."""

from __future__ import annotations

import pytest
import tensorir_only  # noqa: F401  # skips where TVM is missing

from examples import generic_device


def test_the_example_of_a_dsp_cascades_within_its_memory_and_holds(capsys: pytest.CaptureFixture[str]) -> None:
    proof = generic_device.main()
    printed = capsys.readouterr().out
    assert proof.failures() == ()
    assert "equal to numpy up to rounding: True" in printed
    assert "squashed: squashing, 6 cycles per element" in printed
    assert proof.resident <= generic_device.MEMORY < generic_device.SAMPLES * generic_device.CHANNELS * 4 * 2
    # The DSP's own cost is what was counted: a lookup of each sample but the last, which no result needs.
    assert proof.work["squashed"] == (generic_device.SAMPLES - 1) * generic_device.CHANNELS * 6
