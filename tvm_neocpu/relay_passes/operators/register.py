"""The door for operators from outside the package: all of one operator in one call."""

from __future__ import annotations

from collections.abc import Iterable

from tvm_neocpu.core.errors import ConfigError
from tvm_neocpu.relay_passes.operators.call_form import CallForm
from tvm_neocpu.relay_passes.operators.table import add_form, remove_form
from tvm_neocpu.topi.operator import Implementation, Operator
from tvm_neocpu.topi.table import add_operator, register_implementation, remove_operator


def register_operator(
    operator: Operator, form: CallForm, implementations: Iterable[Implementation] = ()
) -> None:
    """Make an operator known to builds, tuning, logs and explain, with its implementations.

    Raises ConfigError if its name, workload type or an implementation's name is taken, or if the
    form is another operator's; nothing is registered then.
    """
    if form.operator != operator.name:
        raise ConfigError(f"the form is of {form.operator!r}, the operator is {operator.name!r}")
    add_operator(operator)
    try:
        add_form(form)
        for implementation in implementations:
            register_implementation(operator.name, implementation)
    except ConfigError:
        unregister_operator(operator.name)
        raise


def unregister_operator(name: str) -> None:
    """Forget an operator, its form and its implementations; unknown names are ignored."""
    remove_form(name)
    remove_operator(name)
