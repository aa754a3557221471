"""Targets: whatever a user writes, as a TVM target and our description of its CPU.

    parse_target("llvm -mcpu=skylake-avx512 -num-cores=8")

Plain ``llvm`` means this machine's own CPU. (In classic TVM it meant a generic x86-64 with 128-bit
vectors, which nobody who asks for speed wants.) With an ``-mtriple`` it is the generic CPU of that.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, TypeAlias

from tvm.target import Target, TargetKind, codegen, list_tags

from tvm_neocpu.core.cpu import Cpu, cache_sizes, isa_of
from tvm_neocpu.core.errors import TargetError
from tvm_neocpu.runtime import host as host_cpu
from tvm_neocpu.runtime.quiet import silent_stderr
from tvm_neocpu.runtime.threads import thread_count
from tvm_neocpu.targets.calibration import calibrated
from tvm_neocpu.targets.families import canonical_name, with_family
from tvm_neocpu.targets.syntax import KIND, check_options, parse_text, suggestion

# Architectures that the schedules are made for; LLVM's other back ends would only be slow.
ARCHITECTURES = ("x86_64", "aarch64")
_CROSS_TRIPLES = {"x86_64": "x86_64-linux-gnu", "aarch64": "aarch64-linux-gnu"}


class GenericTargetWarning(UserWarning):
    """Code is generated for any CPU of the architecture, though this one could do more."""


@dataclass(frozen=True)
class CompileTarget:
    """What to generate code for: TVM's target and what templates may know of the machine.

    ``features`` are LLVM's feature names; ``missing`` are those that this machine cannot execute:
    empty when the compiled module runs here.
    """

    target: Target
    cpu: Cpu
    features: frozenset[str] = frozenset()
    missing: tuple[str, ...] = ()

    @property
    def runs_here(self) -> bool:
        return not self.missing


TargetLike: TypeAlias = str | Mapping[str, Any] | Target | CompileTarget | None


def parse_target(spec: TargetLike = None, *, measured: bool = True) -> CompileTarget:
    """A target as a user writes it: classic string, dictionary, JSON, tag, TVM target or nothing.

    ``None``, ``"native"`` and ``"llvm"`` are this machine. Raises TargetError, with one line, for
    anything that TVM or LLVM would not understand (they would fall back to a slow generic CPU).
    ``measured`` as for :func:`describe_target`.
    """
    if isinstance(spec, CompileTarget):
        return spec
    config = _config_of(spec)
    _check_kind(config)
    check_options(config, _options())
    _normalize_attributes(config)
    triple = str(config.get("mtriple") or host_cpu.triple())
    _check_triple(triple)
    if _wants_native(config):
        config = _native(config)
    if "mcpu" in config:
        _check_cpu(str(config["mcpu"]), triple)
    _check_attributes(config, triple)
    target = _build(config)
    if int(target.attrs.get("num-cores", 1)) < 1:
        raise TargetError(f"-num-cores={config['num-cores']}: a CPU has at least one core")
    try:
        return describe_target(target, measured=measured)
    except RuntimeError as error:
        # LLVM's own limits, which TVM does not check before it asks: a negative -vector-width.
        raise TargetError(_refusal(config, error)) from error


def describe_target(target: Target, *, measured: bool = True) -> CompileTarget:
    """A TVM target exactly as it is, for a pipeline whose caller generates the code with it.

    ``measured``: take this machine's calibration, if it has one and the target is its own CPU.
    """
    triple = str(target.attrs.get("mtriple", "") or host_cpu.triple())
    mcpu = str(target.attrs.get("mcpu", "generic"))
    features = _features(target)
    missing = host_cpu.missing_features(features, triple)
    cores = int(target.attrs.get("num-cores", 0)) or thread_count()
    cpu = with_family(Cpu(canonical_name(mcpu), isa_of(features), cores))
    if not missing:
        cpu = _with_measured_caches(cpu)
    cpu = _renamed(cpu, mcpu, triple)
    if measured and not missing and is_host_cpu(mcpu):
        cpu = calibrated(cpu)
    return CompileTarget(target, cpu, features, missing)


def is_host_cpu(mcpu: str) -> bool:
    """Whether an LLVM name is that of this machine's CPU; a compatible CPU's is not."""
    return canonical_name(mcpu) == canonical_name(_native_name())


def warn_of_generic_code(found: CompileTarget) -> None:
    """Warn, once, of a target that names no CPU where this machine has wider vectors than it uses.

    TVM's own ``"llvm"`` means the architecture's baseline; ours, in :func:`parse_target`, does not.
    Another architecture is cross-compiled for: nothing better is known of it.
    """
    if found.target.attrs.get("mcpu") or not found.runs_here:
        return
    native = parse_target()
    if native.cpu.isa == found.cpu.isa:
        return
    exported = _exported(native.target)
    config = {name: exported[name] for name in ("kind", "mcpu", "mattr") if name in exported}
    warnings.warn(
        f"this target has no mcpu, so the code is for any {found.cpu.name} CPU and not for this "
        f"{native.cpu.isa.name} one: several times slower. Compile for "
        f'tvm_neocpu.parse_target("llvm").target, that is tvm.target.Target({config}), or name '
        "the baseline as mcpu to keep it without this warning",
        GenericTargetWarning,
        stacklevel=2,
    )


def _config_of(spec: str | Mapping[str, Any] | Target | None) -> dict[str, Any]:
    if spec is None:
        return {"kind": KIND}
    if isinstance(spec, Target):
        return _exported(spec)
    if isinstance(spec, Mapping):
        return {"kind": KIND, **spec}
    if not isinstance(spec, str):
        raise TargetError(f"a target is a string, a dictionary or a tvm Target, not {spec!r}")
    text = spec.strip()
    if text == "native":
        return {"kind": KIND}
    if "/" in text and text in list_tags():
        return _exported(Target(text))
    return parse_text(text, _options())


def _exported(target: Target) -> dict[str, Any]:
    """The target's options as a dictionary, without what TVM derived from them."""
    config = {name: value for name, value in target.export().items() if value not in ("", None)}
    if "mcpu" not in config and config.get("mtriple") == host_cpu.triple():
        # TVM writes the host's triple into Target("llvm"); its author did not.
        config.pop("mtriple")
    return {name: value for name, value in config.items() if not name.startswith("feature.")}


def _check_kind(config: Mapping[str, Any]) -> None:
    kind = str(config["kind"])
    if kind == KIND:
        return
    if kind in Target.list_kinds():
        raise TargetError(f'target kind {kind!r} is not a CPU; tvm_neocpu compiles for "{KIND}"')
    raise TargetError(f'unknown target {kind!r}; expected "{KIND} -mcpu=NAME" or "native"')


def _check_triple(triple: str) -> None:
    # LLVM crashes the process when it is asked about a triple that it does not know.
    arch = host_cpu.arch_of(triple)
    if arch not in ARCHITECTURES:
        hint = suggestion(arch, ARCHITECTURES) or f"; known are {', '.join(ARCHITECTURES)}"
        raise TargetError(f"-mtriple={triple}: unsupported architecture {arch!r}{hint}")


def _wants_native(config: Mapping[str, Any]) -> bool:
    if config.get("mcpu") == "native":
        return True
    return "mcpu" not in config and "mtriple" not in config


def _native(config: Mapping[str, Any]) -> dict[str, Any]:
    """The configuration for this machine; what its hypervisor hides is switched off."""
    name = _native_name()
    model = Target({"kind": KIND, "mcpu": name})
    hidden = host_cpu.missing_features(_features(model), host_cpu.triple())
    attributes = [*(f"-{feature}" for feature in hidden), *config.get("mattr", ())]
    native = {**config, "mcpu": name}
    return {**native, "mattr": attributes} if attributes else native


def _native_name() -> str:
    name = host_cpu.cpu_name()
    return name if codegen.llvm_is_valid_cpu(name, host_cpu.triple()) else "generic"


def _check_cpu(name: str, triple: str) -> None:
    if codegen.llvm_is_valid_cpu(name, triple):
        return
    arch = host_cpu.arch_of(triple)
    for other in ARCHITECTURES:
        if other != arch and codegen.llvm_is_valid_cpu(name, _CROSS_TRIPLES[other]):
            triple_flag = f"-mtriple={_CROSS_TRIPLES[other]}"
            raise TargetError(f"-mcpu={name} is an {other} CPU, not {arch}: add {triple_flag}")
    hint = suggestion(name, _known_cpus(triple))
    raise TargetError(f"LLVM does not know -mcpu={name} for {arch}{hint}")


def _normalize_attributes(config: dict[str, Any]) -> None:
    """A dictionary's ``mattr`` may be one comma-separated string."""
    if "mattr" not in config:
        return
    attributes = config["mattr"]
    if isinstance(attributes, str):
        attributes = [item for item in attributes.split(",") if item]
    if not isinstance(attributes, Sequence):
        raise TargetError(f"mattr is a list of features, not {attributes!r}")
    config["mattr"] = [str(item) for item in attributes]


def _check_attributes(config: Mapping[str, Any], triple: str) -> None:
    for attribute in config.get("mattr", ()):
        sign, name = attribute[:1], attribute[1:]
        if sign not in ("+", "-") or not name:
            raise TargetError(f"a -mattr feature starts with + or -: +{attribute}")
        if name in _known_features(triple) or _llvm_accepts(name, triple):
            continue
        hint = suggestion(name, _known_features(triple), sign)
        raise TargetError(f"LLVM does not know the feature {name!r} in -mattr{hint}")


def _build(config: Mapping[str, Any]) -> Target:
    try:
        return Target(dict(config))
    except (TypeError, ValueError, RuntimeError) as error:
        raise TargetError(_refusal(config, error)) from error


def _refusal(config: Mapping[str, Any], error: Exception) -> str:
    reason = str(error).strip().splitlines()[0]
    return f"TVM refuses the target {dict(config)}: {reason}"


def _features(target: Target) -> frozenset[str]:
    return frozenset(str(name) for name in codegen.llvm_get_cpu_features(target))


@cache
def _options() -> dict[str, str]:
    options = TargetKind.options_from_name(KIND)
    return {str(name): str(kind) for name, kind in options.items()}


@cache
def _known_cpus(triple: str) -> tuple[str, ...]:
    target = Target({"kind": KIND, "mtriple": triple})
    return tuple(str(name) for name in codegen.llvm_get_cpu_archlist(target))


@cache
def _known_features(triple: str) -> frozenset[str]:
    """Every feature that some CPU of the architecture has; LLVM offers no other list."""
    configs = ({"kind": KIND, "mtriple": triple, "mcpu": cpu} for cpu in _known_cpus(triple))
    return frozenset().union(*(_features(Target(config)) for config in configs))


def _llvm_accepts(feature: str, triple: str) -> bool:
    """Whether a feature that no CPU has by itself (``strict-align``) exists all the same."""
    with silent_stderr():  # LLVM writes its own complaint there; ours says it in one line
        target = Target({"kind": KIND, "mtriple": triple, "mattr": [f"+{feature}"]})
        return feature in _features(target)


def _with_measured_caches(cpu: Cpu) -> Cpu:
    """This machine's own cache sizes, where the kernel reports all of them."""
    sizes = cache_sizes()
    if not {1, 2} <= sizes.keys():
        return cpu
    return replace(cpu, l1=sizes[1], l2=sizes[2], l3=sizes.get(3, cpu.l3))


def _renamed(cpu: Cpu, mcpu: str, triple: str) -> Cpu:
    """The name that keys logs: a CPU whose vector ISA flags changed must not share its records."""
    if mcpu == "generic":
        return replace(cpu, name=f"{host_cpu.arch_of(triple)}-{cpu.isa.name}")
    plain = Target({"kind": KIND, "mtriple": triple, "mcpu": mcpu})
    if isa_of(_features(plain)) == cpu.isa:
        return cpu
    return replace(cpu, name=f"{cpu.name}-{cpu.isa.name}")
