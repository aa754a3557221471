"""The demonstration, on the smallest network."""

from __future__ import annotations

from pathlib import Path

import pytest

from tvm_neocpu.commands import demo


def test_it_tunes_builds_and_compares(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo, "RUNS", 5)
    words = ["--model", "lenet", "--seconds", "1", "--folder", str(tmp_path)]
    assert demo.main(words) == 0
    out = capsys.readouterr().out
    assert "untuned" in out and "tuned" in out
    assert (tmp_path / "tuned.so").exists()
