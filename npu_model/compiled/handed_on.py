"""Tensors outside the arena that several NPU operators of a file share: which files are read, and which are refused."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence

from npu_model.errors import InputError
from npu_model.printable import printable
from npu_model.tflite.model import TfliteModel, TfliteOperator


def check_handed_on(
    model: TfliteModel, planned: Container[int], homes: Sequence[Mapping[int, tuple[int, int]]], on_cpu: Sequence[TfliteOperator]
) -> None:
    """InputError unless each tensor with a region of its own is alone in it, in all NPU operators, and no operator on the CPU uses it.

    ``homes`` are the regions and addresses of these tensors, by number, for each NPU operator. TFLite Micro gives each operator its own
    base addresses; here a region is one memory for the whole network. ``planned`` are the tensors that the file's plan places.
    """

    def name(index: int) -> str:
        return repr(printable(model.tensors[index].name))

    regions: dict[int, int] = {}
    owners: dict[int, int] = {}
    for index, (region, _) in (home for found in homes for home in found.items()):
        if index in planned:
            raise InputError(
                f"The file has {len(model.operators)} operators and tensors with regions of their own, but its plan also puts "
                f"{name(index)} into the arena: only a file with one NPU operator for the whole network may do so; compile without "
                "--separate-io-regions."
            )
        if regions.setdefault(index, region) != region:
            raise InputError(
                f"Tensor {name(index)} is region {regions[index]} of one NPU operator and region {region} of another: it must be "
                "the same of all; compile with it in the arena."
            )
        if owners.setdefault(region, index) != index:
            raise InputError(
                f"Region {region} is tensor {name(owners[region])} of one NPU operator and {name(index)} of another: files are read where "
                "each has a region of its own; compile with one of them in the arena."
            )
    for operator in on_cpu:
        shared = next((index for index in (*operator.inputs, *operator.outputs) if index in regions), None)
        if shared is not None:
            raise InputError(
                f"{operator.name} on the CPU uses tensor {name(shared)}, which is region {regions[shared]} of an NPU operator: files are "
                "read where the CPU works in the arena; compile with that tensor there."
            )
