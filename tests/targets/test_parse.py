"""Targets as users write them; a bad one fails in one clear line."""

from __future__ import annotations

import pytest

from tvm_neocpu.core.errors import TargetError
from tvm_neocpu.targets import CompileTarget, parse_target
from tvm_neocpu.targets.native import native_cpu


@pytest.mark.parametrize("spec", [None, "native", "llvm", "llvm -mcpu=native", {"kind": "llvm"}])
def test_nothing_in_particular_is_this_machine(spec: object) -> None:
    found = parse_target(spec)
    assert found.runs_here
    assert str(found.target.attrs["mcpu"]) == native_cpu()


def test_flags_reach_tvm() -> None:
    target = parse_target("llvm -libs=mkl,mlas -keys=x86 -device=arm_cpu -opt-level=2").target
    assert list(target.attrs["libs"]) == ["mkl", "mlas"]
    assert "x86" in target.keys
    assert int(target.attrs["opt-level"]) == 2


def test_a_compile_target_is_itself() -> None:
    found = parse_target("llvm")
    assert isinstance(found, CompileTarget)
    assert parse_target(found) is found


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("", "empty"),
        ("cuda", "not a CPU"),
        ("lvm", "unknown target 'lvm'"),
        ("llvm extra", "expected a flag"),
        ("llvm -mcp=znver4", "did you mean -mcpu"),
        ("llvm -mcpu", "needs a value"),
        ("llvm -mcpu='x", "does not parse"),
        ("llvm -mcpu=a -mcpu=b", "given twice"),
        ("llvm -num-cores=two", "whole number"),
        ("llvm -num-cores=0", "at least one core"),
        ("llvm -vector-width=-3", "vector-width"),
        ("llvm -mtriple=x86_64-linux-gnu -mcpu=skylake-avx51", "did you mean skylake-avx512"),
        ("llvm -mtriple=x86_64-linux-gnu -mcpu=cortex-a72", "add -mtriple=aarch64-linux-gnu"),
        ("llvm -mtriple=x86_64-linux-gnu -mattr=+avx512ff", "did you mean +avx512f"),
        ("llvm -mattr=fma", "starts with + or -"),
        ("llvm -mtriple=junk", "unsupported architecture 'junk'"),
        ("llvm -mtriple=riscv64-linux-gnu", "unsupported architecture"),
        ("{bad", "JSON"),
        (3, "a string, a dictionary"),
        ({"kind": "llvm", "foo": 1}, "unknown target option 'foo'"),
        ({"kind": "llvm", "mattr": 5}, "list of features"),
        ({"kind": "llvm", "num-cores": "x"}, "num-cores"),
    ],
)
def test_bad_targets_are_one_line(
    spec: object, words: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(TargetError) as caught:
        parse_target(spec)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
    assert capfd.readouterr().err == ""


def test_a_feature_that_no_cpu_has_by_itself_is_still_known() -> None:
    parse_target("llvm -mtriple=aarch64-linux-gnu -mattr=+strict-align")


def test_an_unknown_feature_is_not_llvms_to_report(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(TargetError, match="nosuchfeature"):
        parse_target("llvm -mattr=+nosuchfeature")
    assert capfd.readouterr().err == ""
