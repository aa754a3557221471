"""Run a convolution and the pool that alone reads it in one function, some rows at a time.

What lies between them stays in a core's own cache (`topi/fused_block/pooled_conv.py`).
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import ClassVar

import tvm
from tvm import relax
from tvm.ir import GlobalVar

from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.core.network.layer_group import GroupBands
from tvm_neocpu.relay_passes.ir.exprs import CALL_TIR, op_name
from tvm_neocpu.relay_passes.ir.regions import Region, regions_of, relax_functions
from tvm_neocpu.relay_passes.ir.rewrite import Scope, rewrite_regions
from tvm_neocpu.topi.fused_block.member import Member
from tvm_neocpu.topi.fused_block.pool_template import pool_of, pooled_function
from tvm_neocpu.topi.fused_block.pooled_conv import bands_of
from tvm_neocpu.topi.fused_block.template import layers_of, member_of

OP = tvm.ir.Op.get(CALL_TIR)
# What the functions of groups are called.
NAME = "fused_pool"
_LOG = logging.getLogger("tvm_neocpu")


@dataclass(frozen=True)
class FusePools:
    """A convolution and the pool that alone reads it become one call::

        y = conv2d_relu(x, w, b)
        z = max_pool2d(y)            ->      z = fused_pool(x, w, b)

    ``groups`` are those of the plan; those of one layer mean its pool.

    Needs: groups are fused and not scheduled; each function of a template still has its anchor.
    Leaves: functions of groups, scheduled and marked so; the others as they were.
    """

    name: ClassVar[str] = "fuse-pools"
    cpu: Cpu
    groups: GroupBands

    def __call__(self, mod: tvm.IRModule) -> tvm.IRModule:
        if not any(len(members) == 1 for members in self.groups):
            return mod
        search = _Search(mod, self.groups, self.cpu)
        for _, function in relax_functions(mod):
            for region in regions_of(function):
                search.visit(region)
        if not search.calls:
            return mod
        return rewrite_regions(search.builder.get(), search.rewrite)


class _Search:
    """The pools of a module that become part of a convolution's call, and these calls.

    ``calls`` has the new call of each pool's variable; ``gone`` the convolutions' variables.
    """

    def __init__(self, mod: tvm.IRModule, planned: GroupBands, cpu: Cpu) -> None:
        self.calls: dict[relax.Var, relax.Call] = {}
        self.gone: set[relax.Var] = set()
        self.builder = relax.BlockBuilder(mod)
        self._mod, self._planned, self._cpu = mod, planned, cpu
        self._functions: dict[tuple[str, str, int], GlobalVar | None] = {}

    def visit(self, region: Region) -> None:
        """Take the groups of one region."""
        planned: dict[relax.Var, tuple[relax.Call, Member]] = {}
        for binding in region.bindings:
            value = binding.value
            if op_name(value) != CALL_TIR or len(value.args) != 2:
                continue
            func = self._mod[str(value.args[0].name_hint)]
            if layers_of(func) is not None:
                continue  # another group, which is scheduled already
            layer = member_of(func)
            if layer is None:
                self._visit_reader(binding, planned)
                continue
            is_planned = ((layer.workload, layer.config),) in self._planned
            if is_planned and region.uses[binding.var] == 1:
                planned[binding.var] = value, layer

    def _visit_reader(
        self,
        binding: relax.VarBinding,
        planned: dict[relax.Var, tuple[relax.Call, Member]],
    ) -> None:
        """Make a call without a template a group with the layer that it reads."""
        args = tuple(binding.value.args[1])
        places = [at for at, arg in enumerate(args) if arg in planned]
        if len(places) != 1:
            return
        conv, layer = planned[args[places[0]]]
        names = str(conv.args[0].name_hint), str(binding.value.args[0].name_hint)
        key = (*names, places[0])
        if key not in self._functions:
            self._functions[key] = self._function(layer, *key)
        name = self._functions[key]
        if name is None:
            _LOG.debug("left apart: what reads %s goes through it in no bands", layer.workload)
            return
        others = [arg for at, arg in enumerate(args) if at != places[0]]
        operands = relax.Tuple([*conv.args[1], *others])
        self.calls[binding.var] = relax.Call(OP, [name, operands], None, binding.value.ty_args)
        self.gone.add(args[places[0]])

    def _function(self, layer: Member, conv: str, reader: str, reads: int) -> GlobalVar | None:
        pool = pool_of(self._mod[reader], reads, self._cpu)
        if pool is None:
            return None
        groups = bands_of(layer, pool.window, pool.height, self._cpu)
        bands = self._planned[((layer.workload, layer.config),)]
        if not groups or bands.rows > pool.height or bands.run != 1:
            return None
        group = replace(groups[0], rows=bands.rows)
        func = pooled_function(group, self._mod[conv], pool, self._cpu)
        return None if func is None else self.builder.add_func(func, NAME)

    def rewrite(self, scope: Scope) -> None:
        """The same bindings, those of groups replaced."""
        for binding in scope.region.bindings:
            if binding.var not in self.gone:
                scope.bind(binding.var, self.calls.get(binding.var, binding.value))
