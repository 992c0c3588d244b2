"""Operators on the CPU in a functional run: executed by whom the caller hands in, with the bytes that the network has room for."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np
import numpy.typing as npt
import pytest
from cpu_networks import cpu_split_network

from cascader.frontends.vela import compile_network
from npu_model.compiled.network import CompiledNetwork, CpuOperator, read_compiled
from npu_model.errors import InputError
from sim.functional.network import run

Array = npt.NDArray[np.generic]
IMAGE = np.arange(16 * 16 * 8, dtype=np.int64).reshape(1, 16, 16, 8).astype(np.int8)


@cache
def split() -> CompiledNetwork:
    """Convolution, DEPTH_TO_SPACE on the CPU, convolution."""
    return read_compiled(compile_network(cpu_split_network()).compiled)


def depth_to_space(_index: int, operator: CpuOperator, arrays: Sequence[Array]) -> Sequence[Array]:
    """Blocks of 2 x 2 channels side by side."""
    (values,) = arrays
    n, height, width, depth = values.shape
    blocks = values.reshape(n, height, width, 2, 2, depth // 4)
    return [blocks.transpose(0, 1, 3, 2, 4, 5).reshape(operator.outputs[0].shape)]


def test_the_operator_s_result_is_what_the_npu_goes_on_with() -> None:
    asked: list[str] = []

    def zeros(index: int, operator: CpuOperator, arrays: Sequence[Array]) -> Sequence[Array]:
        asked.append(operator.code)
        return [np.zeros_like(one) for one in depth_to_space(index, operator, arrays)]

    (real,), (none,) = (tuple(run(split(), [IMAGE], on_cpu=one).values()) for one in (depth_to_space, zeros))
    assert asked == ["DEPTH_TO_SPACE"]
    assert real.shape == none.shape == split().outputs[0].shape
    assert np.unique(real).size > np.unique(none).size


def test_without_anybody_to_execute_it_the_operator_and_its_output_are_named() -> None:
    with pytest.raises(InputError, match=r"runs DEPTH_TO_SPACE on the CPU \(output '.*'\), which is not executed here"):
        run(split(), [IMAGE])


def test_a_result_of_another_size_is_refused() -> None:
    with pytest.raises(InputError, match=r"DEPTH_TO_SPACE \(output '.*'\) gives 3 bytes on the CPU where the network has room for \d+"):
        run(split(), [IMAGE], on_cpu=lambda *_: [np.zeros(3, np.int8)])


@pytest.mark.parametrize(
    ("inputs", "sentence"),
    [
        ([IMAGE, IMAGE], "2 inputs were given: the network takes 1, "),
        ({"picture": IMAGE}, "Inputs 'picture' were given: the network takes exactly "),
        ([IMAGE.astype(np.uint8)], "is given as uint8 of shape"),
        ([IMAGE[:, :3]], r"is given as int8 of shape \(1, 3, 16, 8\)"),
    ],
)
def test_inputs_that_are_not_the_network_s_are_refused(inputs: object, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        run(split(), inputs, on_cpu=depth_to_space)  # type: ignore[arg-type]
