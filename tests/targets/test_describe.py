"""A target described: the name, vector ISA, caches and cores of its CPU."""

from __future__ import annotations

import pytest
import tvm

from tvm_neocpu.core.machine.cpu import AVX2, AVX512, KIB, MIB, NEON, SSE
from tvm_neocpu.runtime.process import host as host_cpu
from tvm_neocpu.targets import describe_target, parse_target


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
        # Flags that change the vector ISA change the name: the plain CPU's records do not fit.
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


def test_caches_of_a_cpu_that_is_not_this_one_come_from_its_family() -> None:
    other = host_cpu.arch_of(host_cpu.triple()) == "aarch64"
    text = "x86_64-linux-gnu -mcpu=znver4" if other else "aarch64-linux-gnu -mcpu=neoverse-n1"
    cpu = parse_target(f"llvm -mtriple={text}").cpu
    assert (cpu.l1, cpu.l2) == ((32 * KIB, 1 * MIB) if other else (64 * KIB, 1 * MIB))


def test_cores_are_the_flag_then_the_pool(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TVM_NUM_THREADS", "3")
    assert parse_target("llvm").cpu.cores == 3
    assert parse_target("llvm -num-cores=8").cpu.cores == 8


def test_another_architecture_compiles_but_does_not_run_here() -> None:
    other = "aarch64" if host_cpu.arch_of(host_cpu.triple()) == "x86_64" else "x86_64"
    found = parse_target(f"llvm -mtriple={other}-linux-gnu")
    assert found.missing == (other,)
    assert not found.runs_here


def test_hidden_features_are_read_from_the_kernel(tmp_path) -> None:
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text("processor : 0\nflags\t\t: fpu avx2 fma avx512f avx512_vnni\n")
    here = host_cpu.executable_features(cpuinfo)
    assert here == {"avx2", "fma", "avx512f", "avx512vnni"}
    assert host_cpu.executable_features(tmp_path / "absent") is None


@pytest.mark.parametrize("lent", [True, False])
def test_amx_is_there_where_linux_lends_its_registers(
    tmp_path, monkeypatch: pytest.MonkeyPatch, lent: bool
) -> None:
    cpuinfo = tmp_path / f"cpuinfo{lent}"
    cpuinfo.write_text("flags\t\t: avx512f amx_tile amx_int8 amx_bf16\n")
    monkeypatch.setattr(host_cpu, "lends_tiles", lambda: lent)
    found = host_cpu.executable_features(cpuinfo)
    assert found == {"avx512f", *(("amx-tile", "amx-int8", "amx-bf16") if lent else ())}


def test_a_hypervisor_that_hides_avx512_is_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    if host_cpu.arch_of(host_cpu.triple()) != "x86_64":
        pytest.skip("x86 only")
    haswell = parse_target("llvm -mtriple=x86_64-linux-gnu -mcpu=haswell").features
    monkeypatch.setattr(host_cpu, "cpu_name", lambda: "skylake-avx512")
    monkeypatch.setattr(host_cpu, "executable_features", lambda: haswell)
    found = parse_target("llvm")
    assert found.cpu.isa == AVX2
    assert found.cpu.name == "skylake-avx512-avx2"
