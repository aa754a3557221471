"""Classic target strings, dictionaries and TVM targets; bad ones fail in one clear line."""

from __future__ import annotations

import ast
import re

import pytest
import tvm

from tvm_neocpu.core.cpu import AVX2, AVX512, KIB, MIB, NEON, SSE
from tvm_neocpu.core.errors import TargetError
from tvm_neocpu.runtime import host as host_cpu
from tvm_neocpu.targets.syntax import parse_text
from tvm_neocpu.targets.target import (
    CompileTarget,
    GenericTargetWarning,
    describe_target,
    parse_target,
    warn_of_generic_code,
)

OPTIONS = {"mcpu": "str", "mattr": "Array<str>", "num-cores": "int", "fast-math": "bool"}


@pytest.mark.parametrize(
    ("text", "config"),
    [
        ("llvm", {}),
        ("llvm -mcpu=znver4", {"mcpu": "znver4"}),
        ("llvm --mcpu=znver4", {"mcpu": "znver4"}),
        ("llvm -mcpu znver4 -num-cores=8", {"mcpu": "znver4", "num-cores": 8}),
        ("llvm -mattr=+fma,-avx512f", {"mattr": ["+fma", "-avx512f"]}),
        ("llvm -fast-math -mcpu=a", {"fast-math": True, "mcpu": "a"}),
        ("llvm -fast-math=0", {"fast-math": False}),
    ],
)
def test_classic_text(text: str, config: dict[str, object]) -> None:
    assert parse_text(text, OPTIONS) == {"kind": "llvm", **config}


@pytest.mark.parametrize("spec", [None, "native", "llvm", "llvm -mcpu=native", {"kind": "llvm"}])
def test_nothing_in_particular_is_this_machine(spec: object) -> None:
    found = parse_target(spec)
    assert found.runs_here
    assert str(found.target.attrs["mcpu"]) in (host_cpu.cpu_name(), "generic")


def test_a_plain_tvm_target_is_this_machine_but_described_exactly_as_it_is() -> None:
    plain = tvm.target.Target("llvm")
    assert parse_target(plain).cpu == parse_target("llvm").cpu
    assert describe_target(plain).target is plain
    assert describe_target(plain).cpu.isa in (SSE, NEON)


@pytest.mark.parametrize(
    ("text", "name", "isa"),
    [
        ("llvm -mtriple=x86_64-linux-gnu -mcpu=skylake-avx512", "skylake-avx512", AVX512),
        ("llvm -mtriple=x86_64-linux-gnu -mcpu=skx", "skylake-avx512", AVX512),
        ("llvm -mtriple=x86_64-linux-gnu -mcpu=znver2", "znver2", AVX2),
        ("llvm -mtriple=x86_64-linux-gnu -mcpu=nehalem", "nehalem", SSE),
        ("llvm -mtriple=x86_64-linux-gnu", "x86_64-sse", SSE),
        ("llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a72", "cortex-a72", NEON),
        ("llvm -mtriple=arm64-apple-macos -mcpu=apple-m1", "apple-m1", NEON),
        ("llvm -mtriple=aarch64-linux-gnu", "aarch64-neon", NEON),
        # A changed vector ISA must not answer with the plain CPU's records.
        ("llvm -mtriple=x86_64-linux-gnu -mcpu=znver4 -mattr=-avx512f", "znver4-avx2", AVX2),
        ("llvm -mtriple=x86_64-linux-gnu -mcpu=haswell -mattr=+avx512f", "haswell-avx512", AVX512),
        ("raspberry-pi/4b-aarch64", "cortex-a72", NEON),
        ('{"kind": "llvm", "mtriple": "aarch64-linux-gnu", "mcpu": "neoverse-n1"}',
         "neoverse-n1", NEON),
    ],
)  # fmt: skip
def test_name_and_isa_come_from_llvm(text: str, name: str, isa: object) -> None:
    found = parse_target(text)
    assert (found.cpu.name, found.cpu.isa) == (name, isa)


def test_another_architecture_compiles_but_does_not_run_here() -> None:
    other = "aarch64" if host_cpu.arch_of(host_cpu.triple()) == "x86_64" else "x86_64"
    found = parse_target(f"llvm -mtriple={other}-linux-gnu")
    assert found.missing == (other,)
    assert not found.runs_here


def test_caches_of_a_cpu_that_is_not_this_one_come_from_its_family() -> None:
    other = host_cpu.arch_of(host_cpu.triple()) == "aarch64"
    text = "x86_64-linux-gnu -mcpu=znver4" if other else "aarch64-linux-gnu -mcpu=neoverse-n1"
    cpu = parse_target(f"llvm -mtriple={text}").cpu
    assert (cpu.l1, cpu.l2) == ((32 * KIB, 1 * MIB) if other else (64 * KIB, 1 * MIB))


def test_cores_are_the_flag_then_the_pool(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TVM_NUM_THREADS", "3")
    assert parse_target("llvm").cpu.cores == 3
    assert parse_target("llvm -num-cores=8").cpu.cores == 8


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


def test_hidden_features_are_read_from_the_kernel(tmp_path) -> None:
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text("processor : 0\nflags\t\t: fpu avx2 fma avx512f avx512_vnni\n")
    here = host_cpu.executable_features(cpuinfo)
    assert here == {"avx2", "fma", "avx512f", "avx512vnni"}
    assert host_cpu.executable_features(tmp_path / "absent") is None


def test_a_hypervisor_that_hides_avx512_is_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    if host_cpu.arch_of(host_cpu.triple()) != "x86_64":
        pytest.skip("x86 only")
    haswell = parse_target("llvm -mtriple=x86_64-linux-gnu -mcpu=haswell").features
    monkeypatch.setattr(host_cpu, "cpu_name", lambda: "skylake-avx512")
    monkeypatch.setattr(host_cpu, "executable_features", lambda: haswell)
    found = parse_target("llvm")
    assert found.cpu.isa == AVX2
    assert found.cpu.name == "skylake-avx512-avx2"


def test_the_advice_of_the_warning_is_right() -> None:
    if parse_target("llvm").cpu.isa in (SSE, NEON):
        pytest.skip("this machine has nothing better than the baseline")
    with pytest.warns(GenericTargetWarning) as caught:
        warn_of_generic_code(describe_target(tvm.target.Target("llvm")))
    config = re.search(r"Target\(({.*?})\)", str(caught[0].message))
    assert config is not None
    advised = tvm.target.Target(ast.literal_eval(config[1]))
    assert describe_target(advised).cpu == parse_target("llvm").cpu


@pytest.mark.parametrize("text", ["llvm -mcpu=x86-64", "llvm -mtriple=aarch64-linux-gnu"])
def test_a_baseline_asked_for_is_no_mistake(text: str, recwarn: pytest.WarningsRecorder) -> None:
    if host_cpu.arch_of(host_cpu.triple()) != "x86_64":
        pytest.skip("x86 only")
    warn_of_generic_code(parse_target(text))
    assert not list(recwarn)
