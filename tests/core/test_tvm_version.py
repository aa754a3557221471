"""The version of TVM: by the metadata beside it; where they do not say it, by Python's own look."""

from __future__ import annotations

import importlib.metadata
from pathlib import Path
from types import SimpleNamespace

import pytest

from tvm_neocpu.core import tvm_version


@pytest.mark.parametrize(
    ("beside", "wanted"),
    [
        pytest.param(["apache_tvm-0.27.0.post1.dist-info"], "0.27.0.post1", id="installed"),
        pytest.param([], "of the environment", id="editable: metadata lies elsewhere"),
        pytest.param(
            ["apache_tvm-0.26.0.dist-info", "apache_tvm-0.27.0.dist-info"],
            "of the environment",
            id="what an update left behind",
        ),
        pytest.param(
            ["apache_tvm_ffi-0.1.15.dist-info", "~pache_tvm-0.26.0.dist-info"],
            "of the environment",
            id="other packages",
        ),
    ],
)
def test_the_version(
    beside: list[str], wanted: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in beside:
        (tmp_path / name).mkdir()
    spec = SimpleNamespace(origin=str(tmp_path / "tvm" / "__init__.py"))
    monkeypatch.setattr(tvm_version, "find_spec", lambda _: spec)
    monkeypatch.setattr(importlib.metadata, "version", lambda _: "of the environment")
    assert tvm_version.tvm_version.__wrapped__() == wanted
