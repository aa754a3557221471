"""ONNX's node and model suites through `tvm_neocpu.onnx_backend`, against expected.txt.

The file can only grow: a case that passed passes, and one that passes is listed.
"""

from __future__ import annotations

import onnx
import pytest
from onnx_suite import (
    FAIL,
    LIGHT,
    NEVER,
    PASS,
    Family,
    cases,
    most_in_ci,
    outcome,
    read_expected,
    write_expected,
)

VERSION, FAMILIES = read_expected()
COMMAND = "python tests/onnx_suite/regenerate.py"
# The suite is another one with another version of onnx.
same_version = pytest.mark.skipif(
    onnx.__version__ != VERSION, reason=f"expected.txt was written with onnx {VERSION}"
)


def _check(name: str, names: list[str]) -> None:
    family, known = FAMILIES[name], cases()
    surprises = []
    for case in names:
        status = family.status[case]
        if status == NEVER or case not in known:
            continue
        why = outcome(known[case])
        if why and status == PASS:
            surprises.append(f"{case} no longer passes: {why}")
        if not why and status == FAIL and onnx.__version__ == VERSION:
            surprises.append(f"{case} passes; list it by `{COMMAND} {name}`")
    assert not surprises, "\n".join(surprises)


@pytest.mark.parametrize("name", sorted(set(FAMILIES) - {LIGHT}))
def test_a_part_of_a_family(name: str) -> None:
    _check(name, FAMILIES[name].quick(most_in_ci(name)))


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(FAMILIES))
def test_the_rest_of_a_family(name: str) -> None:
    _check(name, FAMILIES[name].rest(most_in_ci(name)))


@pytest.mark.slow
def test_a_part_of_the_light_networks() -> None:
    _check(LIGHT, FAMILIES[LIGHT].quick(most_in_ci(LIGHT)))


@same_version
def test_every_case_is_listed() -> None:
    listed = {name: family for family, each in FAMILIES.items() for name in each.status}
    assert listed == {case.name: case.family for case in cases().values()}, COMMAND


def test_every_family_that_fails_has_a_reason() -> None:
    fails = {name for name, family in FAMILIES.items() if set(family.status.values()) != {PASS}}
    assert {name for name in fails if not FAMILIES[name].reason} == set()


def test_no_case_ends_with_a_raw_exception() -> None:
    raw = {
        name
        for family in FAMILIES.values()
        for name, detail in family.detail.items()
        if detail.startswith("raw")
    }
    assert raw == set()


def test_reading_gives_what_was_written(tmp_path) -> None:
    families = {
        "Conv": Family("", {"test_a": PASS, "test_b": PASS}, {"test_a": "", "test_b": ""}),
        "Loop": Family("no loops", {"test_c": FAIL}, {"test_c": "refused: no loops"}),
    }
    write_expected(families, tmp_path / "expected.txt")
    assert read_expected(tmp_path / "expected.txt") == (onnx.__version__, families)
