"""Which edits of the sources make records stale, and which do not."""

from __future__ import annotations

import shutil
import sys
import types
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tvm_neocpu.topi.conv2d_direct.implementation import DIRECT
from tvm_neocpu.topi.table import all_implementations
from tvm_neocpu.tuning.database.lines import staleness
from tvm_neocpu.tuning.database.lines.staleness import (
    space_version,
    template_version,
    verdict_stamp,
)

WINOGRAD, TILES = "conv2d_NCHWc_winograd", "dense_gemm"
INTEGER_WINOGRAD = "conv2d_NCHWc_winograd_int"
BF16_WINOGRAD = "conv2d_NCHWc_winograd_bf16"


@pytest.fixture
def edit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """``edit("tir/order.py")`` changes a file in a copy of the sources that counts as theirs."""
    topi = tmp_path / "topi"
    shutil.copytree(staleness._TOPI, topi, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(staleness, "_TOPI", topi)

    def change(name: str) -> None:
        (topi / name).write_text((topi / name).read_text() + "\n# edited\n")
        forget()

    def forget() -> None:
        staleness._module_version.cache_clear()
        staleness._content.cache_clear()

    forget()
    yield change
    forget()


def versions() -> dict[str, str]:
    return {entry.name: template_version(entry.name) for entry in all_implementations()}


def test_a_copy_of_the_sources_has_the_same_versions(edit) -> None:
    copied = versions()
    staleness._module_version.cache_clear()
    assert all(len(version) == 8 for version in copied.values())
    # The four of AMX are one room.
    assert len(set(copied.values())) == len(copied) - 3


@pytest.mark.parametrize(
    ("name", "stale"),
    [
        ("conv2d_winograd/template.py", {WINOGRAD, INTEGER_WINOGRAD, BF16_WINOGRAD}),
        ("conv2d_winograd/definition.py", {WINOGRAD, INTEGER_WINOGRAD, BF16_WINOGRAD}),
        ("conv2d_winograd/matrices.py", {WINOGRAD, INTEGER_WINOGRAD, BF16_WINOGRAD}),
        ("gemm/tiles.py", {TILES, "dense_pack", "dense_int", "dense_bf16", "batch_matmul_pack"}),
        ("schedule/steps.py", "all"),
        ("tir/order.py", "all"),
        ("tir/prefetch/requests.py", "all"),
        ("conv2d_winograd/space.py", set()),
        ("conv2d_winograd/cost.py", set()),
        ("conv2d/text.py", set()),
        ("conv2d/reference.py", set()),
        ("cost/roofline.py", set()),
        ("table.py", set()),
    ],
)
def test_an_edit_makes_the_records_of_its_templates_stale(edit, name, stale) -> None:
    before = versions()
    edit(name)
    changed = {template for template, version in versions().items() if version != before[template]}
    assert changed == (before.keys() if stale == "all" else stale)


def test_a_larger_space_opens_what_is_settled_and_leaves_the_records(edit) -> None:
    before = space_version("conv2d"), space_version("dense"), verdict_stamp()
    edit("conv2d_winograd/space.py")
    assert space_version("conv2d") != before[0]
    assert (space_version("dense"), verdict_stamp()) == before[1:]


def test_somebody_elses_file_is_the_version_of_his_implementation(
    tmp_path, monkeypatch, registered
) -> None:
    path = tmp_path / "fancy_template.py"
    path.write_text("def compute(): ...\n")
    module = types.ModuleType("fancy_template")
    module.__file__ = str(path)
    exec(path.read_text(), module.__dict__)
    monkeypatch.setitem(sys.modules, "fancy_template", module)
    config_type = type("FancyConfig", (), {"template": "fancy"})
    entry = replace(DIRECT, name="fancy", config_type=config_type, compute=module.compute)
    with registered(entry):
        first = template_version("fancy")
        staleness._content.cache_clear()
        staleness._module_version.cache_clear()
        path.write_text("def compute(): ...  # better\n")
        assert len(first) == 8 and template_version("fancy") != first
        path.unlink()
        staleness._content.cache_clear()
        staleness._module_version.cache_clear()
        assert template_version("fancy") == staleness._NO_SOURCE
    assert template_version("fancy") == ""
