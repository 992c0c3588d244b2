"""Constant operands of emitted kernels: the bytes of a stripe's own rows, and nothing else."""

from __future__ import annotations

from functools import cache

import pytest
from msgspec.structs import replace

from cascader.ethosu.job.stripes import BufferPlace, stripe
from cascader.ethosu.network.network import CONSTANTS, EthosuPart, ethosu_part
from cascader.ethosu.verify.emitted import require_own_constants
from cascader.frontends.vela import import_network
from npu_model.errors import InputError
from npu_model.program import KernelOperation
from validation.portfolio import build


@cache
def border() -> tuple[str, EthosuPart]:
    """A kernel that fills a border of a padded tensor from constants of several rows."""
    for part in import_network(build("pair_pad_pool")).graph.parts:
        payload = ethosu_part(part)
        if payload is not None and payload.operation.ifm.region == CONSTANTS and payload.operation.ifm.shape.height > 2:
            return part.name, payload
    raise AssertionError("the padded network has no such kernel")


def cut(start: int, end: int) -> KernelOperation:
    payload = border()[1]
    return stripe(payload, start, end, {payload.ofm: BufferPlace(0, 1, 1 << 30)})


def test_every_stripe_reads_the_constants_of_its_own_rows() -> None:
    name, payload = border()
    height = payload.operation.ofm.shape.height
    for start in range(height):
        require_own_constants(name, payload, (start, start + 1), cut(start, start + 1))
    require_own_constants(name, payload, None, cut(0, height))


def test_a_stripe_that_reads_the_constants_of_another_row_is_refused_with_both_places() -> None:
    name, payload = border()
    right = cut(1, 2)
    wrong = replace(right, ifm=right.ifm.moved(-payload.operation.ifm.strides.y))
    with pytest.raises(InputError, match=r"reads constants \d+ to \d+ for rows \(1, 2\), but they are at"):
        require_own_constants(name, payload, (1, 2), wrong)
