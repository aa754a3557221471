"""`python -m tvm_neocpu` lists the commands and hands on to them."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tvm_neocpu import tune
from tvm_neocpu.commands import overview
from tvm_neocpu.commands.shared.exit_codes import CLOSED_PIPE, INTERRUPTED, USER_ERROR
from tvm_neocpu.version import __version__


@pytest.mark.parametrize("argv", [[], ["resnet50"], ["tun", "lenet"]])
def test_without_a_command_is_a_users_mistake(
    argv: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert overview.main(argv) == USER_ERROR
    shown = capsys.readouterr().err
    assert all(f"python -m tvm_neocpu {name}" in shown for name in overview.available())
    assert shown.startswith("error: there is no command") == bool(argv)
    assert ("did you mean tune?" in shown) == (argv[:1] == ["tun"])


def test_help_is_none(capsys: pytest.CaptureFixture[str]) -> None:
    for word in ("--help", "-h", "help"):
        assert overview.main([word]) == 0
        assert "tvm_neocpu explain" in capsys.readouterr().out


def test_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    for word in ("--version", "-V"):
        assert overview.main([word]) == 0
        assert capsys.readouterr().out == f"tvm-neocpu {__version__}\n"


@pytest.mark.parametrize("words", ["--help", "explain lenet"])
def test_who_reads_may_have_enough(words: str) -> None:
    read, write = os.pipe()
    os.close(read)
    done = started(words, write)
    os.close(write)
    assert (done.returncode, done.stderr) == (CLOSED_PIPE, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a file that is full is Linux's")
@pytest.mark.parametrize("words", ["--help", "explain lenet"])
def test_output_to_a_full_disk_is_one_line(words: str) -> None:
    with open("/dev/full", "w") as full:
        done = started(words, full.fileno())
    assert done.returncode == USER_ERROR
    assert done.stderr == "error: cannot write the output: No space left on device\n"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a file that is full is Linux's")
def test_errors_to_a_full_disk_keep_their_exit_code() -> None:
    """1 would say that a comparison found a difference."""
    with open("/dev/full", "w") as full:
        assert started("explain nosuch", full.fileno(), full.fileno()).returncode == USER_ERROR


def started(
    words: str, output: int, errors: int = subprocess.PIPE
) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tvm_neocpu", *words.split()]
    env = {**os.environ, "PYTHONPATH": str(Path(overview.__file__).parents[2])}
    return subprocess.run(command, stdout=output, stderr=errors, text=True, env=env)


def test_a_package_that_is_not_installed_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The extra `runtime` has what compiled files need, and no `rich`."""

    def missing(_: str) -> None:
        raise ModuleNotFoundError("No module named 'rich'", name="rich")

    monkeypatch.setattr(overview, "command", missing)
    assert overview.main(["doctor"]) == USER_ERROR
    assert capsys.readouterr().err.startswith("error: commands need rich: pip install tvm-neocpu")


def test_every_command_that_is_listed_is_there() -> None:
    for name in overview.available():
        assert callable(overview.command(name))
    rooms = Path(overview.__file__).parent
    with_main = {path.stem for path in rooms.glob("*.py") if "\ndef main(" in path.read_text()}
    assert with_main - {"overview"} == set(overview.available())


def test_a_command_that_this_installation_lacks_is_not_listed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(overview.COMMANDS, "brew", "coffee")
    assert overview.main(["brew"]) == USER_ERROR
    assert "coffee" not in capsys.readouterr().err


OLD = (
    *("bench", "calibrate", "demo", "explain", "profile"),
    *("quantize", "records", "schedule", "tune"),
)


@pytest.mark.parametrize("name", OLD)
def test_the_old_spellings_stay(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overview, "command", lambda asked: lambda words: [asked, *words])
    monkeypatch.setattr(sys, "argv", ["tune.py", "lenet"])
    main = importlib.import_module(f"tvm_neocpu.{name}").main
    assert main() == [name, "lenet"]
    assert main(["unet"]) == [name, "unet"]


def test_an_interrupt_while_a_command_is_imported_is_a_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(name: str) -> object:
        raise KeyboardInterrupt

    monkeypatch.setattr(overview, "import_module", interrupted)
    for main in (tune.main, lambda words: overview.main(["tune", *words])):
        assert main(["lenet"]) == INTERRUPTED
        assert capsys.readouterr().err == "interrupted\n"


def test_words_go_to_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Sequence[str]] = []

    def fake(name: str) -> object:
        return lambda words: seen.append([name, *words]) or 7

    monkeypatch.setattr(overview, "command", fake)
    assert overview.main(["tune", "lenet", "--help"]) == 7
    assert seen == [["tune", "lenet", "--help"]]


def test_the_package_can_be_run() -> None:
    env = {**os.environ, "PYTHONPATH": str(Path(overview.__file__).parents[2])}
    command = [sys.executable, "-m", "tvm_neocpu"]
    found = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert found.returncode == USER_ERROR
    assert "python -m tvm_neocpu bench" in found.stderr and "Traceback" not in found.stderr
    found = subprocess.run([*command, "run", "--help"], env=env, capture_output=True, text=True)
    assert found.returncode == 0 and "--input" in found.stdout
