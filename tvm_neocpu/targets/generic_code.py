"""The warning about a target that names no CPU, on a machine that could do better."""

from __future__ import annotations

import warnings

from tvm_neocpu.targets.describe import CompileTarget
from tvm_neocpu.targets.parse import options_of, parse_target


class GenericTargetWarning(UserWarning):
    """Code is generated for any CPU of the architecture, though this machine has wider vectors."""


def warn_of_generic_code(found: CompileTarget) -> None:
    """Warn of a target without ``mcpu`` whose code uses narrower vectors than this machine has.

    TVM's own ``"llvm"`` means the architecture's baseline; ours, in :func:`parse_target`, does not.
    No warning for another architecture: nothing better is known of the machine it will run on.
    """
    if found.target.attrs.get("mcpu") or not found.runs_here:
        return
    native = parse_target()
    if native.cpu.isa == found.cpu.isa:
        return
    options = options_of(native.target)
    config = {name: options[name] for name in ("kind", "mcpu", "mattr") if name in options}
    warnings.warn(
        f"this target has no mcpu, so the code is for any {found.cpu.name} CPU and not for this "
        f"{native.cpu.isa.name} one: several times slower. Compile for "
        f'tvm_neocpu.parse_target("llvm").target, that is tvm.target.Target({config}), or name '
        "the baseline as mcpu to keep it without this warning",
        GenericTargetWarning,
        stacklevel=2,
    )
