"""How every operator looks in a Relax module, as one explicit table."""

from __future__ import annotations

from tvm import relax

from tvm_neocpu.core.errors import ConfigError
from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.core.network.workload import Workload
from tvm_neocpu.relay_passes.ir.exprs import op_name
from tvm_neocpu.relay_passes.operators.call_form import CallForm
from tvm_neocpu.relay_passes.operators.conv2d import CONV2D_FORM
from tvm_neocpu.relay_passes.operators.dense import DENSE_FORM
from tvm_neocpu.relay_passes.operators.layout_transform import LAYOUT_TRANSFORM_FORM
from tvm_neocpu.relay_passes.operators.new.batch_matmul import BATCH_MATMUL_FORM
from tvm_neocpu.relay_passes.operators.new.deform_conv2d import DEFORM_CONV2D_FORM
from tvm_neocpu.relay_passes.operators.new.padded_conv2d import PADDED_CONV2D_FORM
from tvm_neocpu.topi.table import implementations, implementations_of, operator_of

BUILT_IN: tuple[CallForm, ...] = (
    BATCH_MATMUL_FORM,
    CONV2D_FORM,
    DEFORM_CONV2D_FORM,
    DENSE_FORM,
    LAYOUT_TRANSFORM_FORM,
    PADDED_CONV2D_FORM,
)

_FORMS: list[CallForm] = list(BUILT_IN)


def forms() -> tuple[CallForm, ...]:
    """All forms, in order of registration."""
    return tuple(_FORMS)


def added_forms() -> tuple[CallForm, ...]:
    """Those that were registered from outside."""
    return tuple(form for form in _FORMS if form not in BUILT_IN)


def add_form(form: CallForm) -> None:
    """Add how one more operator looks; raises ConfigError for an operator that has a form."""
    if any(known.operator == form.operator for known in _FORMS):
        raise ConfigError(f"the operator {form.operator!r} has a form already")
    _FORMS.append(form)


def remove_form(operator: str) -> None:
    """Take an operator's form out of the table again; unknown names are ignored."""
    _FORMS[:] = [form for form in _FORMS if form.operator != operator]


def read_call(expr: relax.Expr) -> tuple[CallForm, Workload] | None:
    """The form and the workload of a call that templates may take over."""
    name = op_name(expr)
    for form in _FORMS:
        workload = form.read(expr) if form.op == name else None
        if workload is not None:
            return form, workload
    return None


def read_decision(expr: relax.Expr) -> tuple[CallForm, Workload] | None:
    """As :func:`read_call`, of a call that the plan has an entry for."""
    found = read_call(expr)
    return found if found is not None and found[0].decides else None


def is_computed_by_template(workload: Workload, cpu: Cpu) -> bool:
    """Whether some implementation takes the workload on this CPU."""
    return bool(implementations(workload, cpu))


def why_no_template(call: relax.Call, cpu: Cpu) -> str | None:
    """Why no implementation takes a call on this CPU; ``None`` where one does."""
    found = read_decision(call)
    if found is not None:
        return _why_not_implemented(found[1], cpu)
    candidates = [form for form in _FORMS if form.decides and form.op == op_name(call)]
    if not candidates:
        return "no template for this operator"
    reasons = [reason for form in candidates if (reason := form.refusal(call)) is not None]
    return reasons[0] if reasons else "no template for this form of the operator"


def _why_not_implemented(workload: Workload, cpu: Cpu) -> str | None:
    if is_computed_by_template(workload, cpu):
        return None
    operator = operator_of(workload).name
    if not any(workload.types in entry.types for entry in implementations_of(operator)):
        return f"no template for {workload.types}"
    return f"no template for this shape on {cpu.name}"
