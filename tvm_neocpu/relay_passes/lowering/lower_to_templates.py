"""Replace the calls of operators by their templates' computation, weights packed.

A template takes the elementwise chain in front of it along where nothing else reads that.

Other calls are left to TVM's own legalisation, which follows this pass.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import ClassVar

import tvm
from tvm import relax, te

from tvm_neocpu.codegen.late_weights import MIN_BYTES, LateWeight, is_late, late_weights
from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.core.machine.half import BF16
from tvm_neocpu.core.network.candidate import layouts_of
from tvm_neocpu.core.network.config import Config
from tvm_neocpu.core.network.layout import Layout
from tvm_neocpu.core.network.workload import Operand, Role, Workload
from tvm_neocpu.core.types import BF16_MAPS
from tvm_neocpu.relay_passes.ir.constants import array_of, constant_of
from tvm_neocpu.relay_passes.ir.half_weights import half_weights
from tvm_neocpu.relay_passes.ir.regions import count_module_uses
from tvm_neocpu.relay_passes.ir.rewrite import remove_dead_code
from tvm_neocpu.relay_passes.lowering.lowered_before import (
    KnownFunctions,
    LoweredBefore,
    is_static,
)
from tvm_neocpu.relay_passes.lowering.read_prologue import Prologue, read_prologue
from tvm_neocpu.relay_passes.lowering.rounded_maps import (
    SUM,
    StoredMaps,
    over_stored,
    rounded_maps,
)
from tvm_neocpu.relay_passes.operators.call_form import CallForm
from tvm_neocpu.relay_passes.operators.new.recurrence import OP as RECURRENCE
from tvm_neocpu.relay_passes.operators.new.recurrence import lower_recurrence
from tvm_neocpu.relay_passes.operators.table import forms, read_call
from tvm_neocpu.runtime.ffi.tensors import as_array
from tvm_neocpu.topi.cost.ranking import best_config
from tvm_neocpu.topi.operator import Implementation
from tvm_neocpu.topi.table import implementation_of

# (workload, input layout, output layout): what a call of the altered module tells of its config.
LayoutKey = tuple[Workload, Layout, Layout]


def layout_key(workload: Workload, config: Config) -> LayoutKey:
    """The key under which :class:`LowerToTemplates` looks for this config."""
    return workload, *layouts_of(config)


@dataclass(frozen=True)
class LowerToTemplates:
    """Every call that an implementation takes becomes a call of its function.

    So do recurrences, which have one function for each CPU and nothing to choose.

    ``configs`` decides; the cost model stands in for what it does not name. Equal layers are
    computed once. With ``before`` packed weights have the right sizes and any values, for timing
    (Winograd's transforms take half of a lowering), and functions that it knows are not computed
    again.
    Needs: layouts given to all calls (:class:`AlterOpLayout`). Leaves: PrimFuncs with an anchor
    each, not yet scheduled.
    """

    name: ClassVar[str] = "lower-to-templates"
    cpu: Cpu
    configs: Mapping[LayoutKey, Config] = field(default_factory=dict)
    before: LoweredBefore | None = None

    def __call__(self, mod: tvm.IRModule) -> tvm.IRModule:
        known = KnownFunctions() if self.before is None else self.before.functions
        uses, rounded = count_module_uses(mod), frozenset[relax.Var]()
        if self.before is None:  # else layers are timed by themselves, and read what any may store
            sums = self._rounds_sums(mod)
            rounded = rounded_maps(mod, uses, self._implementation, sums)
        stored = StoredMaps(rounded, uses)
        lower = partial(self._lower, uses, known, stored)
        legalize = {form.op: lower for form in forms()}
        legalize[RECURRENCE] = partial(lower_recurrence, self.cpu)
        legalize[SUM] = stored.add
        lowered = relax.transform.LegalizeOps(legalize, skip_ops=_all_but(legalize))(mod)
        return remove_dead_code(lowered)

    def _rounds_sums(self, mod: tvm.IRModule) -> bool:
        """Whether bytes decide, and nobody bounds the error."""
        return half_weights(mod) == BF16 and self.cpu.multiplies_tiles(BF16_MAPS)

    def _lower(
        self,
        uses: Mapping[relax.Var, int],
        known: KnownFunctions,
        stored: StoredMaps,
        builder: relax.BlockBuilder,
        call: relax.Call,
    ) -> relax.Expr:
        found = read_call(call)
        if found is None:
            return call
        form, workload = found
        config = self._config(call, form, workload)
        if config is None:
            return call
        entry = implementation_of(config)
        data, *others = form.tensors(call)
        if data in stored.maps:
            data, workload = stored.read(builder, data), over_stored(workload)
        read = read_prologue(data, builder.lookup_binding, uses) if entry.takes_prologue else None
        prologue = read or Prologue((data,), ())
        arguments = [
            self._argument(operand, tensor, entry, workload, config)
            for operand, tensor in zip(workload.operands[1:], others, strict=True)
        ]

        def compute(*tensors: te.Tensor) -> te.Tensor:
            tensor = iter(tensors)
            parts = list(islice(tensor, len(prologue.parts)))
            operands = list(islice(tensor, len(prologue.operands)))
            return entry.compute(prologue.compute(parts, operands), *tensor, workload, config)

        # TVM takes a constant's shape from its elements, which a late weight has not.
        named = [relax.Var("weight", each.ty) if is_late(each) else each for each in arguments]
        tensors = [*prologue.parts, *prologue.operands, *named]
        if is_static(tensors):
            scheme = workload, config, prologue.scheme
            lowered = known.call(builder, form.operator, scheme, compute, tensors, form.pattern)
        else:
            lowered = builder.call_te(
                compute,
                *tensors,
                primfunc_name_hint=form.operator,
                primfunc_attrs={"op_pattern": form.pattern},
            )
        return _with_operands(lowered, dict(zip(named, arguments, strict=True)))

    def _config(self, call: relax.Call, form: CallForm, workload: Workload) -> Config | None:
        """``None`` where no template takes the call."""
        key = (workload, *form.layouts(call))
        return self.configs.get(key) or best_config(*key, self.cpu)

    def _implementation(
        self, call: relax.Call, form: CallForm, workload: Workload
    ) -> Implementation | None:
        config = self._config(call, form, workload)
        return None if config is None else implementation_of(config)

    def _argument(
        self,
        operand: Operand,
        tensor: relax.Expr,
        entry: Implementation,
        workload: Workload,
        config: Config,
    ) -> relax.Expr:
        """The tensor itself, or the weight as the implementation packs it."""
        if operand.role is not Role.WEIGHT or entry.pack_weight is None:
            return tensor
        values = array_of(tensor)
        if values is None:
            values = as_array(tensor.value)
        assert entry.packed_shape is not None
        shape, dtype = entry.packed_shape(workload, config), entry.packed_type(operand.dtype)
        if self.before is not None:
            return self.before.weight(values, shape, dtype)
        packed = LateWeight(shape, dtype, partial(entry.pack_weight, values, workload, config))
        late = late_weights()
        if late is not None and packed.size >= MIN_BYTES:
            return late.add(values, (entry.name, workload, config), packed)
        return constant_of(packed.pack())


def _with_operands(call: relax.Call, operands: Mapping[relax.Expr, relax.Expr]) -> relax.Call:
    """A call of a TIR function with other operands."""
    if all(old.same_as(new) for old, new in operands.items()):
        return call
    function, values = call.args
    changed = relax.Tuple([operands.get(value, value) for value in values])
    return relax.Call(call.op, [function, changed], call.attrs, call.ty_args)


def _all_but(legalized: Mapping[str, object]) -> list[str]:
    """Every operator name that this pass must not touch."""
    return [name for name in tvm.ir.Op.list_op_names() if name not in legalized]
