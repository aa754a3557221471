"""A TVM target described: what templates and the cost model may know of its CPU."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tvm.target import Target

from tvm_neocpu.core.machine.cache_sizes import cache_sizes
from tvm_neocpu.core.machine.cpu import Cpu, feature_hash, isa_of, packs_of
from tvm_neocpu.core.machine.dot import dots_of
from tvm_neocpu.core.machine.half import halves_of
from tvm_neocpu.core.machine.look_up import look_up_of
from tvm_neocpu.core.machine.matrix_unit import matrix_unit_of
from tvm_neocpu.runtime.process import host as host_cpu
from tvm_neocpu.runtime.process.threads import thread_count
from tvm_neocpu.targets import llvm
from tvm_neocpu.targets.calibration_file import calibrated
from tvm_neocpu.targets.families import canonical_name, with_family
from tvm_neocpu.targets.native import native_cpu
from tvm_neocpu.targets.syntax import KIND


@dataclass(frozen=True)
class CompileTarget:
    """What code is generated for: TVM's target, and the CPU as templates see it.

    ``features`` are LLVM's names of what the code may use. ``missing`` are those that this machine
    cannot execute; without any, the compiled module runs here.
    """

    target: Target
    cpu: Cpu
    features: frozenset[str] = frozenset()
    missing: tuple[str, ...] = ()

    @property
    def triple(self) -> str:
        """LLVM's triple of the code; this machine's where the target names none."""
        return str(self.target.attrs.get("mtriple", "") or host_cpu.triple())

    @property
    def why_not_here(self) -> str:
        """Why this machine cannot execute the code, for a sentence: empty where it can."""
        if not self.missing:
            return ""
        if self.missing == (host_cpu.arch_of(self.triple),):
            return f"it is {self.missing[0]} code, and this machine is {host_cpu.arch()}"
        return f"this machine lacks {', '.join(self.missing)}"

    @property
    def runs_here(self) -> bool:
        return not self.missing


def describe_target(target: Target, *, measured: bool = True) -> CompileTarget:
    """Describe a TVM target as it is, for a caller that generates the code with that target.

    ``measured``: this machine's calibration counts, if there is one and the target is its own CPU.
    """
    triple = str(target.attrs.get("mtriple", "") or host_cpu.triple())
    mcpu = str(target.attrs.get("mcpu", "generic"))
    features = llvm.features_of(target)
    missing = host_cpu.missing_features(features, triple)
    cores = int(target.attrs.get("num-cores", 0)) or thread_count()
    cpu = Cpu(
        canonical_name(mcpu),
        isa_of(features),
        cores,
        dots=dots_of(features),
        halves=halves_of(features),
        matrix=matrix_unit_of(features) if "linux" in triple else None,
        look_up=look_up_of(features),
        packs=packs_of(features),
    )
    cpu = with_family(cpu)
    if not missing:
        cpu = _with_reported_caches(cpu)
    name = _log_name(cpu, mcpu, triple)
    cpu = replace(cpu, name=name, features=feature_hash(features))
    if measured and not missing and is_host_cpu(mcpu):
        cpu = calibrated(cpu)
    return CompileTarget(target, cpu, features, missing)


def is_host_cpu(mcpu: str) -> bool:
    """Whether an LLVM name is that of this machine's CPU; a compatible CPU's is not."""
    return canonical_name(mcpu) == canonical_name(native_cpu())


def _with_reported_caches(cpu: Cpu) -> Cpu:
    """This machine's own cache sizes, if the kernel reports at least L1 and L2."""
    sizes = cache_sizes()
    if not {1, 2} <= sizes.keys():
        return cpu
    return replace(cpu, l1=sizes[1], l2=sizes[2], l3=sizes.get(3, cpu.l3))


def _log_name(cpu: Cpu, mcpu: str, triple: str) -> str:
    """The name that keys logs.

    Flags that change the vector ISA change the name: its records are not the plain CPU's.
    """
    if mcpu == "generic":
        return f"{host_cpu.arch_of(triple)}-{cpu.isa.name}"
    plain = Target({"kind": KIND, "mtriple": triple, "mcpu": mcpu})
    same_isa = isa_of(llvm.features_of(plain)) == cpu.isa
    return cpu.name if same_isa else f"{cpu.name}-{cpu.isa.name}"
