"""Every operator and its implementations, as one explicit table.

A new operator or algorithm is one line of :data:`BUILT_IN`. From outside the package
``tvm_neocpu.register_operator`` and :func:`register_implementation` add theirs.
"""

from __future__ import annotations

from tvm_neocpu.core.errors import ConfigError
from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.core.network.config import Config
from tvm_neocpu.core.network.workload import Workload
from tvm_neocpu.topi.batch_matmul.operator import BATCH_MATMUL, BATCH_MATMUL_PACK
from tvm_neocpu.topi.conv2d.operator import CONV2D
from tvm_neocpu.topi.conv2d_amx.implementation import (
    BF16_ROWS_IN_TILES,
    BF16_TILES,
    INTEGER_ROWS_IN_TILES,
    INTEGER_TILES,
)
from tvm_neocpu.topi.conv2d_bf16.implementation import BF16_DIRECT
from tvm_neocpu.topi.conv2d_depthwise.implementation import DEPTHWISE
from tvm_neocpu.topi.conv2d_depthwise_rows.implementation import DEPTHWISE_ROWS
from tvm_neocpu.topi.conv2d_direct.implementation import DIRECT
from tvm_neocpu.topi.conv2d_im2col.implementation import IM2COL
from tvm_neocpu.topi.conv2d_integer.implementation import INTEGER
from tvm_neocpu.topi.conv2d_integer_rows.implementation import INTEGER_ROWS
from tvm_neocpu.topi.conv2d_split.implementation import SPLIT
from tvm_neocpu.topi.conv2d_to_few.implementation import TO_FEW
from tvm_neocpu.topi.conv2d_winograd.implementation import WINOGRAD
from tvm_neocpu.topi.conv2d_winograd_bf16.implementation import BF16_WINOGRAD
from tvm_neocpu.topi.conv2d_winograd_integer.implementation import INTEGER_WINOGRAD
from tvm_neocpu.topi.deform_conv2d.operator import DEFORM_CONV2D, SAMPLED_COLUMNS
from tvm_neocpu.topi.dense.operator import DENSE, DENSE_PACK
from tvm_neocpu.topi.dense_bf16.implementation import DENSE_BF16
from tvm_neocpu.topi.dense_gemm.implementation import DENSE_GEMM
from tvm_neocpu.topi.dense_integer.implementation import DENSE_INTEGER
from tvm_neocpu.topi.layout_transform.operator import LAYOUT_TRANSFORM, MOVE
from tvm_neocpu.topi.operator import Implementation, Operator
from tvm_neocpu.topi.sweep.operator import BY_TVM, SWEEP

BUILT_IN: tuple[tuple[Operator, tuple[Implementation, ...]], ...] = (
    (BATCH_MATMUL, (BATCH_MATMUL_PACK,)),
    (
        CONV2D,
        (
            *(DIRECT, DEPTHWISE, DEPTHWISE_ROWS, WINOGRAD, IM2COL, TO_FEW),
            *(INTEGER, INTEGER_ROWS, SPLIT, INTEGER_WINOGRAD, BF16_DIRECT, BF16_WINOGRAD),
            *(INTEGER_TILES, BF16_TILES, INTEGER_ROWS_IN_TILES, BF16_ROWS_IN_TILES),
        ),
    ),
    (DEFORM_CONV2D, (SAMPLED_COLUMNS,)),
    (DENSE, (DENSE_PACK, DENSE_GEMM, DENSE_INTEGER, DENSE_BF16)),
    (LAYOUT_TRANSFORM, (MOVE,)),
    (SWEEP, (BY_TVM,)),
)

_OPERATORS: dict[str, Operator] = {operator.name: operator for operator, _ in BUILT_IN}
_IMPLEMENTATIONS: dict[str, list[Implementation]] = {
    operator.name: list(entries) for operator, entries in BUILT_IN
}


def operators() -> tuple[Operator, ...]:
    """All operators, in order of registration."""
    return tuple(_OPERATORS.values())


def all_implementations() -> tuple[Implementation, ...]:
    """Those of every operator, in order of registration."""
    return tuple(entry for entries in _IMPLEMENTATIONS.values() for entry in entries)


def add_operator(operator: Operator) -> None:
    """Add an operator without implementations.

    Raises ConfigError for a name or a workload type that another operator has.
    """
    for known in operators():
        if operator.name == known.name or operator.workload_type is known.workload_type:
            raise ConfigError(f"the operator {known.name!r} exists already")
    _OPERATORS[operator.name] = operator
    _IMPLEMENTATIONS[operator.name] = []


def remove_operator(name: str) -> None:
    """Take an operator and its implementations out again; unknown names are ignored."""
    _OPERATORS.pop(name, None)
    _IMPLEMENTATIONS.pop(name, None)


def register_implementation(operator: str, implementation: Implementation) -> None:
    """Add one more way to compute ``operator`` (``"conv2d"``, ``"dense"``...).

    Raises ConfigError for an unknown operator, or a name that is taken or is not the template
    name of its configuration type.
    """
    if operator not in _OPERATORS:
        raise ConfigError(f"unknown operator {operator!r}; known are {', '.join(_OPERATORS)}")
    if find_implementation(implementation.name) is not None:
        raise ConfigError(f"an implementation named {implementation.name!r} exists already")
    if getattr(implementation.config_type, "template", None) != implementation.name:
        raise ConfigError(
            f"{implementation.config_type.__name__}.template must be {implementation.name!r}"
        )
    _IMPLEMENTATIONS[operator].append(implementation)


def unregister_implementation(name: str) -> None:
    """Take an implementation out of the table again; unknown names are ignored."""
    for entries in _IMPLEMENTATIONS.values():
        entries[:] = [entry for entry in entries if entry.name != name]


# Operators with those of their implementations that somebody brought from outside the package.
Brought = tuple[tuple[Operator, tuple[Implementation, ...]], ...]


def brought() -> Brought:
    """What the table has beyond :data:`BUILT_IN`; another process lacks it."""
    own = {entry.name for _, entries in BUILT_IN for entry in entries}
    added = (
        (operator, tuple(e for e in _IMPLEMENTATIONS[operator.name] if e.name not in own))
        for operator in operators()
    )
    return tuple(pair for pair in added if pair[1])


def bring(others: Brought) -> None:
    """Give this process's table what another's has; entries of the same names are replaced."""
    for operator, entries in others:
        _OPERATORS[operator.name] = operator
        names = {entry.name for entry in entries}
        kept = [e for e in _IMPLEMENTATIONS.get(operator.name, []) if e.name not in names]
        _IMPLEMENTATIONS[operator.name] = [*kept, *entries]


def operator_of(workload: Workload) -> Operator:
    """The operator that a workload is of; raises ConfigError if it is not registered."""
    for operator in operators():
        if type(workload) is operator.workload_type:
            return operator
    raise ConfigError(f"no operator has workloads of type {type(workload).__name__}")


def find_operator(name: str) -> Operator | None:
    """The operator of that name."""
    return _OPERATORS.get(name)


def operator_of_template(template: str) -> Operator | None:
    """The operator that an implementation of this name computes; ``None`` for an unknown name."""
    for name, entries in _IMPLEMENTATIONS.items():
        if any(entry.name == template for entry in entries):
            return _OPERATORS[name]
    return None


def implementations_of(operator: str) -> tuple[Implementation, ...]:
    """All of an operator, in order of registration."""
    return tuple(_IMPLEMENTATIONS[operator])


def implementations(workload: Workload, cpu: Cpu) -> tuple[Implementation, ...]:
    """Those that accept the workload on this CPU, in order of registration; maybe none."""
    entries = _IMPLEMENTATIONS[operator_of(workload).name]
    return tuple(entry for entry in entries if entry.accepts(workload, cpu))


def find_implementation(template: str) -> Implementation | None:
    """The implementation of that name."""
    return next((entry for entry in all_implementations() if entry.name == template), None)


def implementation_of(config: Config) -> Implementation:
    """The implementation that a config belongs to; raises ConfigError if it is not registered."""
    found = find_implementation(config.template)
    if found is None:
        raise ConfigError(f"no implementation named {config.template!r} is registered")
    return found


def refusal(workload: Workload, config: Config, cpu: Cpu) -> str | None:
    """Why a config from a log may not compute the workload on this CPU, as the environment is now.

    ``None`` where it may. Configs of implementations that nobody registered may not.
    """
    entry = find_implementation(config.template)
    if entry is None:
        return f"no implementation named {config.template!r} is registered"
    if operator_of_template(config.template) is not operator_of(workload):
        return f"{config.template} is of another operator"
    return entry.refusal(workload, config, cpu)


def fits(workload: Workload, config: Config, cpu: Cpu) -> bool:
    """Whether a config from a log may compute the workload on this CPU: nothing refuses it."""
    return refusal(workload, config, cpu) is None


def space_of(workload: Workload, cpu: Cpu) -> tuple[Config, ...]:
    """Every config of every implementation that accepts the workload."""
    return tuple(
        config for entry in implementations(workload, cpu) for config in entry.space(workload, cpu)
    )


def types_of(template: str) -> tuple[type[Workload], type]:
    """(workload type, config type) of an implementation; raises ConfigError for an unknown name."""
    entry, operator = find_implementation(template), operator_of_template(template)
    if entry is None or operator is None:
        raise ConfigError(f"no implementation named {template!r} is registered")
    return operator.workload_type, entry.config_type
