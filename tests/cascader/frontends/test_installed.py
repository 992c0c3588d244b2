"""The version of the installed Vela is that of its metadata, from the name of their folder where there is one."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path

import pytest

from cascader.frontends.vela import installed
from cascader.frontends.vela.installed import beside, installed_version


def test_the_version_is_that_of_the_metadata() -> None:
    assert installed_version() == metadata.version("ethos-u-vela")


@pytest.mark.parametrize(
    ("folders", "version"), [((), None), (("5.2.0",), "5.2.0"), (("5.2.0", "5.3.0"), None)], ids=["none", "one", "an old one left behind"]
)
def test_a_folder_says_the_version_if_it_is_the_only_one(tmp_path: Path, folders: tuple[str, ...], version: str | None) -> None:
    for name in folders:
        (tmp_path / f"ethos_u_vela-{name}.dist-info").mkdir()
    assert beside([str(tmp_path / "ethosu")]) == version


def test_python_is_asked_where_no_folder_says_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installed, "beside", lambda _: None)
    assert installed_version() == metadata.version("ethos-u-vela")
    monkeypatch.setattr(installed, "_DISTRIBUTION", "no-distribution-of-this-name")
    assert installed_version() is None
