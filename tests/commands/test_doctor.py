"""doctor: what it reports, and that a failing check is seen."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tvm_neocpu.commands import doctor
from tvm_neocpu.commands.shared.exit_codes import USER_ERROR
from tvm_neocpu.version import __version__


def test_a_sound_machine(capsys: pytest.CaptureFixture[str]) -> None:
    assert doctor.main(["--json", "out.json"]) == 0
    report = json.loads(Path("out.json").read_text())
    assert report["versions"]["tvm_neocpu"] == __version__
    assert report["versions"]["apache-tvm"].startswith("0.27")
    assert set(report["checks"].values()) == {"ok"}
    assert "physical cores" in capsys.readouterr().out


def test_a_check_that_fails_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken() -> None:
        raise OSError("no\nspace")

    monkeypatch.setattr(doctor, "CHECKS", {"a network runs": broken})
    assert doctor.main([]) == doctor.FAILED
    assert "FAILED: OSError: no\n" in capsys.readouterr().out


def test_a_report_that_cannot_be_written(capsys: pytest.CaptureFixture[str]) -> None:
    assert doctor.main(["--json", "no/such.json"]) == USER_ERROR
    assert capsys.readouterr().err.startswith("error: cannot write no/such.json")
