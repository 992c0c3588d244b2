"""The zoo: networks the package builds itself, with standard topologies and seeded weights, so that it works with no download."""

from __future__ import annotations

from collections.abc import Callable

from cascader.frontends.zoo.builder import NetworkBuilder
from cascader.frontends.zoo.dense import super_resolution, unet, vgg
from cascader.frontends.zoo.mobilenet import mobilenet_v1, mobilenet_v2
from cascader.frontends.zoo.recorder import TensorHandle
from cascader.frontends.zoo.small import tiny_conv, tiny_residual
from cascader.frontends.zoo.tiny_benchmark import ds_cnn, resnet8
from npu_model.errors import InputError

__all__ = ["NetworkBuilder", "TensorHandle", "build", "zoo_names"]

_NETWORKS: dict[str, Callable[[], bytes]] = {
    "mobilenet_v1": mobilenet_v1,
    "mobilenet_v2": mobilenet_v2,
    "ds_cnn": ds_cnn,
    "resnet8": resnet8,
    "vgg": vgg,
    "unet": unet,
    "super_resolution": super_resolution,
    "tiny_conv": tiny_conv,
    "tiny_residual": tiny_residual,
}


def zoo_names() -> tuple[str, ...]:
    """The names ``build`` knows, without the ``zoo:`` prefix of the command line."""
    return tuple(_NETWORKS)


def build(name: str) -> bytes:
    """The .tflite file of the zoo network ``name``: the same bytes at every call, on every platform.

    Raises InputError, which lists the names, if there is no such network.
    """
    if name not in _NETWORKS:
        raise InputError(f"The zoo has no network {name!r}: use one of {', '.join(_NETWORKS)}.")
    return _NETWORKS[name]()
