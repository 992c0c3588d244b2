"""The time limit of compilations with Vela, for all work within a block, in other processes too."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from cascader.frontends.vela_timeout import TIMEOUT_VARIABLE
from npu_model.errors import InputError
from npu_model.front import later

with later():
    from npu_testbed.models import te_models  # --help imports no models


@contextmanager
def vela_timeout(ask: object) -> Iterator[None]:
    """Within, a compilation takes at most ``--vela-timeout`` seconds, if the option is given.

    InputError for a graph of Tensor Expressions, because Vela does not compile it.
    """
    seconds: float | None = getattr(ask, "vela_timeout", None)
    if seconds is None:
        yield
        return

    model = getattr(ask, "model", None)
    if model is not None and te_models.is_te(model):
        raise InputError(f"--vela-timeout {seconds:g} was given with {model}: Vela compiles no Tensor Expressions; drop the option.")
    before = os.environ.get(TIMEOUT_VARIABLE)
    os.environ[TIMEOUT_VARIABLE] = repr(seconds)
    try:
        yield
    finally:
        if before is None:
            del os.environ[TIMEOUT_VARIABLE]
        else:
            os.environ[TIMEOUT_VARIABLE] = before
