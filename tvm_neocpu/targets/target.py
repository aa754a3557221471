"""The names of `tvm_neocpu.targets` under their former module; new code imports them from there."""

from tvm_neocpu.targets import (
    CompileTarget,
    GenericTargetWarning,
    TargetLike,
    describe_target,
    is_host_cpu,
    parse_target,
    warn_of_generic_code,
)

__all__ = [
    "CompileTarget",
    "GenericTargetWarning",
    "TargetLike",
    "describe_target",
    "is_host_cpu",
    "parse_target",
    "warn_of_generic_code",
]
