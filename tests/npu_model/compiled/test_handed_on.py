"""Tensors outside the arena in a file of several NPU operators: read where a region is one tensor's of the NPU, else refused."""

from __future__ import annotations

import pytest
from scheduling import DEFAULT, model_bytes

from cascader.frontends.vela import CompilerOptions, compile_network
from npu_model.compiled.handed_on import check_handed_on
from npu_model.compiled.network import read_compiled
from npu_model.errors import InputError
from npu_model.tflite.model import TfliteModel, TfliteOperator, TfliteTensor

NPU = TfliteOperator("CUSTOM", "ethos-u", (0, 1), (2,))
ON_CPU = TfliteOperator("DEPTH_TO_SPACE", "", (0,), (1,))
TENSORS = tuple(TfliteTensor(f"t{number}", (4,), "INT8", (), (), 0, is_variable=False, data=b"") for number in range(3))
MODEL = TfliteModel("", TENSORS, (NPU, ON_CPU, NPU), (0,), (2,), {})


@pytest.mark.parametrize("homes", [(), ({0: (3, 0)},), ({0: (3, 0)}, {2: (4, 0)}), ({2: (3, 0), 0: (4, 0)}, {0: (4, 0)})])
def test_a_region_of_one_tensor_of_the_npu_is_read(homes: tuple[dict[int, tuple[int, int]], ...]) -> None:
    check_handed_on(MODEL, (1,), homes, [ON_CPU][: not any(0 in found for found in homes)])


@pytest.mark.parametrize(
    ("planned", "homes", "says"),
    [
        ((2,), ({0: (3, 0)}, {2: (4, 0)}), "puts 't2' into the arena: .* compile without --separate-io-regions"),
        ((), ({2: (3, 0)}, {2: (4, 0)}), "'t2' is region 3 of one NPU operator and region 4 of another"),
        ((), ({0: (3, 0)}, {2: (3, 0)}), "Region 3 is tensor 't0' of one NPU operator and 't2' of another"),
        ((), ({2: (4, 0), 1: (3, 0)},), "DEPTH_TO_SPACE on the CPU uses tensor 't1', which is region 3"),
    ],
)
def test_what_one_memory_for_a_region_cannot_stand_for_is_refused(
    planned: tuple[int, ...], homes: tuple[dict[int, tuple[int, int]], ...], says: str
) -> None:
    with pytest.raises(InputError, match=says):
        check_handed_on(MODEL, planned, homes, [ON_CPU])


def test_velas_separate_regions_of_several_operators_are_refused_with_the_option_that_made_them() -> None:
    options = CompilerOptions(DEFAULT, optimise="Size", debug_database=False, separate_io_regions=True)
    with pytest.raises(InputError, match=r"puts 'image' into the arena: .* compile without --separate-io-regions"):
        read_compiled(compile_network(model_bytes("cpu"), options).compiled)
