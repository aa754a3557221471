"""A target as a user writes it, as a TVM target.

    parse_target("llvm -mcpu=skylake-avx512 -num-cores=8")

Plain ``llvm`` means this machine's own CPU. (In classic TVM it meant a generic x86-64 with 128-bit
vectors; nobody who asks for speed wants that.) ``llvm -mtriple=T`` means the generic CPU of T.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, TypeAlias

from tvm.target import Target, TargetKind, list_tags

from tvm_neocpu.core.errors import TargetError, first_line
from tvm_neocpu.runtime.process import host as host_cpu
from tvm_neocpu.targets import checks
from tvm_neocpu.targets.describe import CompileTarget, describe_target
from tvm_neocpu.targets.native import native_attributes, native_cpu
from tvm_neocpu.targets.syntax import KIND, parse_text

TargetLike: TypeAlias = str | Mapping[str, Any] | Target | CompileTarget | None


def parse_target(spec: TargetLike = None, *, measured: bool = True) -> CompileTarget:
    """A classic string, dictionary, JSON, tag, TVM target or nothing, described.

    ``None``, ``"native"`` and ``"llvm"`` are this machine. ``measured`` is
    :func:`describe_target`'s. Raises TargetError, with one line, for anything that TVM or LLVM
    would not understand: they would fall back to a slow generic CPU.
    """
    if isinstance(spec, CompileTarget):
        return spec
    config = _config_of(spec)
    checks.check_kind(config)
    checks.check_options(config, _options())
    _normalize_attributes(config)
    triple = str(config.get("mtriple") or host_cpu.triple())
    checks.check_triple(triple)
    if _wants_native(config):
        config = _native(config)
    if "mcpu" in config:
        checks.check_cpu(str(config["mcpu"]), triple)
    checks.check_attributes(config, triple)
    target = _build(config)
    if int(target.attrs.get("num-cores", 1)) < 1:
        raise TargetError(f"-num-cores={config['num-cores']}: a CPU has at least one core")
    try:
        return describe_target(target, measured=measured)
    except RuntimeError as error:
        # LLVM has limits that TVM does not check before it asks: a negative -vector-width.
        raise TargetError(_refusal(config, error)) from error


def options_of(target: Target) -> dict[str, Any]:
    """The options that a TVM target was made of, without those that TVM derived from them."""
    config = {name: value for name, value in target.export().items() if value not in ("", None)}
    if "mcpu" not in config and config.get("mtriple") == host_cpu.triple():
        # TVM writes the host's triple into Target("llvm"); its author did not.
        config.pop("mtriple")
    return {name: value for name, value in config.items() if not name.startswith("feature.")}


def _config_of(spec: str | Mapping[str, Any] | Target | None) -> dict[str, Any]:
    if spec is None:
        return {"kind": KIND}
    if isinstance(spec, Target):
        return options_of(spec)
    if isinstance(spec, Mapping):
        return {"kind": KIND, **spec}
    if not isinstance(spec, str):
        raise TargetError(f"a target is a string, a dictionary or a tvm Target, not {spec!r}")
    text = spec.strip()
    if text == "native":
        return {"kind": KIND}
    if "/" in text and text in list_tags():
        return options_of(Target(text))
    return parse_text(text, _options())


def _normalize_attributes(config: dict[str, Any]) -> None:
    """Make ``mattr`` a list; in a dictionary it may be one comma-separated string."""
    if "mattr" not in config:
        return
    attributes = config["mattr"]
    if isinstance(attributes, str):
        attributes = [item for item in attributes.split(",") if item]
    if not isinstance(attributes, Sequence):
        raise TargetError(f"mattr is a list of features, not {attributes!r}")
    config["mattr"] = [str(item) for item in attributes]


def _wants_native(config: Mapping[str, Any]) -> bool:
    if config.get("mcpu") == "native":
        return True
    return "mcpu" not in config and "mtriple" not in config


def _native(config: Mapping[str, Any]) -> dict[str, Any]:
    """The configuration for this machine, with the features in which it differs from its model."""
    attributes = [*native_attributes(), *config.get("mattr", ())]
    native = {**config, "mcpu": native_cpu()}
    return {**native, "mattr": attributes} if attributes else native


def _build(config: Mapping[str, Any]) -> Target:
    try:
        return Target(dict(config))
    except (TypeError, ValueError, RuntimeError) as error:
        raise TargetError(_refusal(config, error)) from error


def _refusal(config: Mapping[str, Any], error: Exception) -> str:
    return f"TVM refuses the target {dict(config)}: {first_line(error)}"


@cache
def _options() -> dict[str, str]:
    """TVM's options for the kind, with their types: ``{"mcpu": "str", "num-cores": "int"}``."""
    options = TargetKind.options_from_name(KIND)
    return {str(name): str(kind) for name, kind in options.items()}
