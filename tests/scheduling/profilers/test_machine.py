"""Machine files: the shipped ones, and one line for each mistake."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

import pytest

from tvm_neocpu.core.errors import MachineFileError
from tvm_neocpu.scheduling.profilers.machine import SHIPPED, load_machine, parse_machine

TEXT = (
    resources.files("tvm_neocpu.scheduling.profilers")
    .joinpath("machines", "nvdla-small.toml")
    .read_text(encoding="utf-8")
)


@pytest.mark.parametrize(
    ("name", "macs", "kib"), [("nvdla-small", 64, 128), ("nvdla-large", 2048, 512)]
)
def test_the_shipped_machines(name: str, macs: int, kib: int) -> None:
    machine = load_machine(name)
    assert (machine.name, machine.macs_per_cycle) == (name, macs)
    assert machine.buffer_bytes == kib * 1024
    assert machine.block_bytes == macs


def test_a_file_of_ones_own(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(TEXT.replace("nvdla-small", "mine"))
    assert load_machine(path).name == "mine"


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        ("rows = 8  ", "rows = -8 ", "array.rows must be positive: -8"),
        ("rows = 8  ", "rows = 0 ", "array.rows must be positive: 0"),
        ("rows = 8  ", "rows = 8.5 ", "array.rows is 8.5, not a whole number"),
        ("rows = 8  ", 'rows = "8" ', "array.rows is '8', not a whole number"),
        ("rows = 8  ", "rows = true ", "array.rows is True, not a whole number"),
        ("latency = 50", "latency = nan", "dram.latency is nan, not a number"),
        ("latency = 50", "latency = inf", "dram.latency is inf, not a number"),
        ("latency = 50", "latency = -1", "dram.latency must be positive: -1"),
        ("latency = 50", "", "the field dram.latency is missing"),
        ("latency = 50", "latency = 50\nwidth = 3", "there is no field 'dram.width'"),
        ("[array]", "[arrays]", "the field array.rows is missing"),
        ("element_bytes = 1", "element_bytes = 1\nspeed = 2", "there is no field 'speed'"),
        ('name = "nvdla-small"', "", "the field 'name' is missing"),
        ("[dram]", "[dram", "mine is no TOML file"),
    ],
)
def test_mistakes_are_named(old: str, new: str, text: str) -> None:
    assert old in TEXT
    with pytest.raises(MachineFileError) as error:
        parse_machine(TEXT.replace(old, new), "mine")
    assert text in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        ("tpu", "no machine is called 'tpu'; there are " + ", ".join(SHIPPED)),
        ("gone.toml", "cannot read the machine file gone.toml: No such file"),
    ],
)
def test_machines_that_do_not_exist(spec: str, text: str) -> None:
    with pytest.raises(MachineFileError, match=text):
        load_machine(spec)


def test_a_file_that_is_no_text(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(MachineFileError, match="it is no text"):
        load_machine(path)
