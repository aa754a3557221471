"""Which CPU this machine is taken for, where a hypervisor shows another model than it is."""

from __future__ import annotations

import pytest

from tvm_neocpu.core.machine.cpu import AVX512
from tvm_neocpu.runtime.process import host as host_cpu
from tvm_neocpu.targets import parse_target
from tvm_neocpu.targets.families import siblings

TRIPLE = "x86_64-linux-gnu"

pytestmark = pytest.mark.skipif(
    host_cpu.arch() != "x86_64", reason="an ARM machine's LLVM is not asked for x86 CPUs"
)


def _show(
    monkeypatch: pytest.MonkeyPatch, name: str, vendor: str, features: frozenset[str]
) -> None:
    """A machine of the vendor that LLVM calls ``name`` and that executes ``features``."""
    monkeypatch.setattr(host_cpu, "cpu_name", lambda: name)
    monkeypatch.setattr(host_cpu, "vendor", lambda: vendor)
    monkeypatch.setattr(host_cpu, "executable_features", lambda: features)


def _features(name: str) -> frozenset[str]:
    features = parse_target(f"llvm -mtriple={TRIPLE} -mcpu={name}").features
    return features & host_cpu.TRACKED_FEATURES


def test_a_cpu_shown_as_an_older_model_is_taken_for_what_its_features_are(monkeypatch) -> None:
    shown = _features("graniterapids")
    _show(monkeypatch, "rocketlake", "GenuineIntel", shown)
    found = parse_target("llvm")
    assert found.cpu.name == "graniterapids"
    assert found.features & host_cpu.TRACKED_FEATURES == shown
    assert "vdpbf16ps" in {dot.name for dot in found.cpu.dots}


def test_a_cpu_without_a_model_gets_its_vectors(monkeypatch) -> None:
    shown = _features("znver4")
    _show(monkeypatch, "athlon64", "AuthenticAMD", shown)
    assert parse_target("llvm").cpu.name == "znver4"


def test_an_unknown_vendor_keeps_its_name_and_gets_its_features(monkeypatch) -> None:
    shown = _features("znver4")
    _show(monkeypatch, "x86-64", "HygonGenuine", shown)
    found = parse_target("llvm")
    assert (found.cpu.isa, found.features & host_cpu.TRACKED_FEATURES) == (AVX512, shown)
    assert str(found.target.attrs["mcpu"]) == "x86-64"


def test_a_feature_that_no_listed_cpu_has_is_added_to_the_model(monkeypatch) -> None:
    shown = _features("znver4") | {"avxvnni"}
    _show(monkeypatch, "znver4", "AuthenticAMD", shown)
    found = parse_target("llvm")
    assert found.cpu.name == "znver4"
    assert "avxvnni" in found.features


def test_hidden_and_shown_features_may_come_together(monkeypatch) -> None:
    shown = (_features("znver4") - {"vaes"}) | {"avxvnni"}
    _show(monkeypatch, "znver4", "AuthenticAMD", shown)
    found = parse_target("llvm")
    assert found.features & host_cpu.TRACKED_FEATURES == shown
    assert list(found.target.attrs["mattr"]) == ["-vaes", "+avxvnni"]


def test_flags_of_the_user_come_last(monkeypatch) -> None:
    _show(monkeypatch, "znver4", "AuthenticAMD", _features("znver4") | {"avxvnni"})
    assert "avxvnni" not in parse_target("llvm -mattr=-avxvnni").features


def test_a_vendor_is_linux_s_name(tmp_path) -> None:
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text("processor\t: 0\nvendor_id\t: AuthenticAMD\nflags\t\t: fma\n")
    assert host_cpu.vendor(cpuinfo) == "AuthenticAMD"
    assert host_cpu.vendor(tmp_path / "absent") == ""


def test_siblings_are_of_one_vendor() -> None:
    assert siblings("AuthenticAMD") == ("znver1", "znver2", "znver3", "znver4", "znver5")
    assert "graniterapids" in siblings("GenuineIntel")
    assert siblings("") == siblings("HygonGenuine") == ()
