"""The timing parameters: their ranges, and what each does to a replay."""

from __future__ import annotations

from fractions import Fraction

import pytest
from msgspec.structs import replace

from npu_model.accelerator import accelerator
from npu_model.cost.block_jobs import block_jobs
from npu_model.errors import InputError
from npu_model.memory.timing_adapter import profile
from npu_model.timing import DEFAULT_TIMING, BlockdepRule, TimingParameters
from sim import Cause, Unit, operation_beats, replay
from validation.calibrate.parameters import PARAMETERS, timing_at
from validation.fvp.references.records import measured_program


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"pool_floor": 0}, "Timing parameter pool_floor is 0: it ranges from 1 to 64; give an integer in that range."),
        ({"grant": True}, "Timing parameter grant is True: it ranges from 1 to 1024; give an integer in that range."),
        ({"output_scale": 1.5}, "Timing parameter output_scale is 1.5: it is a ratio from 0 to 64; write it as 1 or 7/6."),
        ({"aligned_bursts": 1}, "Timing parameter aligned_bursts is 1: it is a switch; write true or false."),
        ({"shram_drains": 1}, "Timing parameter shram_drains is 1: it is a switch; write true or false."),
    ],
)
def test_a_timing_parameter_out_of_its_range_is_one_sentence(change: dict[str, object], message: str) -> None:
    with pytest.raises(InputError) as error:
        replace(DEFAULT_TIMING, **change)
    assert str(error.value) == message


def test_a_kernel_start_delays_the_input_load_by_so_many_cycles_per_kernel() -> None:
    program = measured_program("rnnoise_INT8", "ethos-u55-128")
    run = replay(program, profile("off").memory_system(), timing=TimingParameters(kernel_start_cycles=7))
    assert run.waits[Unit.IFM, Cause.START] == 7 * len(program.kernels)


def test_an_output_start_adds_to_every_block_of_the_output_unit() -> None:
    program = measured_program("rnnoise_INT8", "ethos-u55-128")
    system = profile("off").memory_system()
    before, after = replay(program, system), replay(program, system, timing=TimingParameters(output_start_cycles=3))
    added = after.busy[Unit.AO] - before.busy[Unit.AO]
    assert added > 0
    assert added % 3 == 0
    assert added // 3 >= len(program.kernels)


def test_the_command_processor_takes_the_cycles_per_word_that_it_is_given() -> None:
    program = measured_program("rnnoise_INT8", "ethos-u55-128")
    for cycles in (0, 1, 3):
        run = replay(program, profile("off").memory_system(), timing=TimingParameters(command_cycles_per_word=cycles))
        assert run.busy.get(Unit.CC, 0) == cycles * sum(program.words)


def test_the_timing_parameters_change_no_beat_but_for_the_ifm_that_is_kept() -> None:
    program = measured_program("kws_micronet_m", "ethos-u55-32")
    system = profile("off").memory_system()
    beats = replay(program, system).beats
    others = TimingParameters(
        pool_floor=4,
        output_scale=Fraction(7, 6),
        buffer_slots=1,
        blockdep=BlockdepRule.DRAINED,
        weights_ahead=False,
        ifm_burst_divisor=1,
        grant=1,
        aligned_bursts=False,
        decodes_streams=False,
    )
    assert replay(program, system, timing=others).beats == beats
    # The measured streams with an IFM deep enough to need many OFM depth blocks are those of the detector.
    detector = measured_program("yolo_fastest_192_face", "ethos-u55-256")
    device = accelerator(detector.accelerator)
    forgetful = TimingParameters(kept_ifm_blocks=0)
    kept = [operation_beats(op, device, system).axi0_read for op in detector.kernels]
    fetched = [operation_beats(op, device, system, block_jobs(op, device, forgetful)).axi0_read for op in detector.kernels]
    assert sum(fetched) > sum(kept)


def test_every_parameter_that_can_be_fitted_stays_inside_what_the_model_accepts() -> None:
    names = set(TimingParameters.__struct_fields__)
    for parameter in PARAMETERS:
        assert parameter.name in names
        assert parameter.lower + parameter.notches * parameter.step == parameter.upper
        assert parameter.value(parameter.notch(DEFAULT_TIMING)) == getattr(DEFAULT_TIMING, parameter.name)
        for notch in (0, parameter.notches):
            assert parameter.notch(timing_at([parameter], [notch], DEFAULT_TIMING)) == notch
