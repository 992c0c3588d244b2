"""Sentences on unknown names: the nearest known one, if any is near."""

from __future__ import annotations

import pytest

from npu_model.errors import did_you_mean


@pytest.mark.parametrize(
    ("name", "found"),
    [("mobilnet_v1", " (did you mean mobilenet_v1?)"), ("mobilenet_v2_1.0", " (did you mean mobilenet_v2?)"), ("yolo", ""), ("", "")],
)
def test_the_nearest_name_is_asked_for(name: str, found: str) -> None:
    assert did_you_mean(name, ["mobilenet_v1", "ds_cnn", "mobilenet_v2"]) == found
