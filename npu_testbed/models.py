"""Where models come from: a .tflite file, or ``zoo:NAME`` or ``portfolio:NAME`` for a network that the package builds."""

from __future__ import annotations

from dataclasses import field
from hashlib import sha256
from pathlib import Path

from npu_model.values import dataclass
from validation.reading import read_file

ZOO, PORTFOLIO = BUILT = "zoo:", "portfolio:"
"""Prefix of the name of a network that the package builds."""


@dataclass(frozen=True, slots=True)
class Model:
    """A model file: its name without folder (or ``zoo:NAME``, ``portfolio:NAME``) and its bytes."""

    name: str
    data: bytes = field(repr=False)

    @property
    def sha256(self) -> str:
        """Hash of the bytes."""
        return sha256(self.data).hexdigest()


def load_model(source: str) -> Model:
    """The model that ``source`` names; InputError if there is none."""
    if source.startswith(ZOO):
        from cascader.frontends.zoo import build  # noqa: PLC0415  # numpy's start-up is only for those who need it

        return Model(source, build(source.removeprefix(ZOO)))
    if source.startswith(PORTFOLIO):
        from validation.portfolio import build as build_portfolio  # noqa: PLC0415  # the same

        return Model(source, build_portfolio(source.removeprefix(PORTFOLIO)))
    return Model(Path(source).name, read_file(source, "Model"))
