"""`python -m tvm_neocpu` names the commands."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tvm_neocpu.commands import cli, overview


@pytest.mark.parametrize("argv", [[], ["resnet50"], ["tune", "lenet"]])
def test_without_a_command_is_a_users_mistake(
    argv: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert overview.main(argv) == cli.USER_ERROR
    shown = capsys.readouterr().err
    assert all(f"python -m tvm_neocpu.{name}" in shown for name in overview.COMMANDS)
    assert shown.startswith("error: ") == bool(argv)
    assert ("did you mean python -m tvm_neocpu.tune?" in shown) == (argv[:1] == ["tune"])


def test_help_is_none(capsys: pytest.CaptureFixture[str]) -> None:
    assert overview.main(["--help"]) == 0
    assert "tvm_neocpu.explain" in capsys.readouterr().out


def test_every_command_is_listed() -> None:
    for name in overview.COMMANDS:
        assert callable(importlib.import_module(f"tvm_neocpu.{name}").main)
    doors = {path.stem for path in Path(cli.__file__).parents[1].glob("*.py")}
    with_main = {door for door in doors if "-m tvm_neocpu." in _text(door)}
    assert with_main - {"__init__", "__main__"} == set(overview.COMMANDS)


def _text(door: str) -> str:
    return (Path(cli.__file__).parents[1] / f"{door}.py").read_text().splitlines()[0]


def test_the_package_can_be_run() -> None:
    env = {**os.environ, "PYTHONPATH": str(Path(cli.__file__).parents[2])}
    command = [sys.executable, "-m", "tvm_neocpu"]
    found = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert found.returncode == cli.USER_ERROR
    assert "python -m tvm_neocpu.bench" in found.stderr and "Traceback" not in found.stderr
