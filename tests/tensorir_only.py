"""Imported first by tests that need TVM: without it they are skipped as a whole."""

from __future__ import annotations

import pytest

from cascader.tensorir.compat import is_installed

if not is_installed():
    pytest.skip("Apache TVM (extra tensorir) is not installed", allow_module_level=True)
