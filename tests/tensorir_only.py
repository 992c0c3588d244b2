"""Imported first by tests that need TVM: without it they are skipped as a whole."""

from __future__ import annotations

import pytest

from cascader.tensorir.compat import load
from npu_model.errors import InputError

try:
    load()
except InputError:
    pytest.skip("Apache TVM (extra tensorir) is not installed", allow_module_level=True)
