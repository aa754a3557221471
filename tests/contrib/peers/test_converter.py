"""Converters run in a process of their own and say in one line why they failed."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tvm_neocpu.contrib.peers import converter
from tvm_neocpu.contrib.peers.converter import ConversionError, convert


def _python(code: str) -> list[str]:
    return [sys.executable, "-S", "-c", code]


def test_what_it_writes_lands_in_the_folder(tmp_path: Path) -> None:
    printed = convert(_python("open('out', 'w').close(); print('done')"), tmp_path)
    assert printed == "done\n"
    assert (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (
            r"print('no\n\x1b[0;93mlayer Det\x1b[m\n'); raise SystemExit(3)",
            "exit code 3: layer Det",
        ),
        ("raise SystemExit(1)", "exit code 1: no text"),
        ("import os; os.kill(os.getpid(), 11)", "SIGSEGV: no text"),
    ],
)
def test_a_failure_is_its_last_line(code: str, reason: str, tmp_path: Path) -> None:
    with pytest.raises(ConversionError) as caught:
        convert(_python(code), tmp_path)
    assert str(caught.value) == reason


def test_a_converter_that_hangs_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(converter, "PATIENCE_SECONDS", 0.1)
    with pytest.raises(ConversionError, match="no result within"):
        convert(_python("import time; time.sleep(60)"), tmp_path)
