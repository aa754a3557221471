"""Node identities: what is computed from what, wherever it stands."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import numpy as np
import tvm
from tvm import relax

from tvm_neocpu.core.machine.cpu import AVX2, Cpu
from tvm_neocpu.relay_passes.planning.extract_conv_graph import ExtractConvGraph

op = relax.op
Emit = Callable[[relax.Expr], relax.Var]

CPU = Cpu("haswell", AVX2, cores=1)


def module(build: Callable[..., relax.Expr], name: str = "x") -> tvm.IRModule:
    builder = relax.BlockBuilder()
    x = relax.Var(name, relax.TensorType((1, 8, 6, 6), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            result = builder.emit_output(build(builder.emit, x))
        builder.emit_func_output(result)
    return builder.get()


def conv(x: relax.Expr, outputs: int = 8, seed: int = 0, **attributes: object) -> relax.Expr:
    values = np.random.default_rng(seed).normal(size=(outputs, 8, 3, 3))
    return op.nn.conv2d(x, relax.const(values.astype("float32")), padding=1, **attributes)


def identities(build: Callable[..., relax.Expr], name: str = "x") -> list[str]:
    """Those of the convolutions, in the order of the program."""
    return [node.id for node in ExtractConvGraph(CPU)(module(build, name)).convs]


def stack(emit: Emit, x: relax.Var) -> relax.Expr:
    return emit(conv(emit(op.nn.relu(emit(conv(x)))), 16))


def test_the_same_network_has_the_same_identities() -> None:
    first, second = identities(stack)
    assert identities(stack) == [first, second]
    assert first != second


def test_identities_outlive_the_process() -> None:
    """They are written to logs: no address and no hash seed may creep in."""
    code = (
        "import importlib.util as u, sys\n"
        f"spec = u.spec_from_file_location('here', {__file__!r})\n"
        "here = u.module_from_spec(spec); sys.modules['here'] = here\n"
        "spec.loader.exec_module(here)\n"
        "print(*here.identities(here.stack))\n"
    )
    paths = {"PYTHONPATH": ":".join(filter(None, sys.path)), "PYTHONHASHSEED": "7"}
    printed = subprocess.run(
        [sys.executable, "-c", code], env=paths, capture_output=True, text=True, check=True
    )
    assert printed.stdout.split() == identities(stack)


def test_weights_do_not_matter() -> None:
    """A retrained network keeps its plan."""
    assert identities(lambda emit, x: emit(conv(x, seed=1))) == identities(
        lambda emit, x: emit(conv(x, seed=2))
    )


def test_attributes_matter() -> None:
    found = {
        identities(lambda emit, x, options=options: emit(conv(x, **options)))[0]
        for options in ({}, {"strides": 2}, {"dilation": 2})
    }
    assert len(found) == 3


def test_edits_behind_a_node_leave_it_alone() -> None:
    first, second = identities(stack)
    longer = identities(lambda emit, x: emit(conv(emit(op.nn.relu(emit(conv(x)))), 4)))
    assert longer[0] == first
    assert longer[1] != second


def test_edits_beside_a_node_leave_it_alone() -> None:
    first, second = identities(stack)

    def branched(emit: Emit, x: relax.Var) -> relax.Expr:
        side = emit(conv(x, 4))
        y = emit(op.nn.relu(emit(conv(x))))
        return emit(relax.Tuple([emit(conv(y, 16)), side, emit(op.nn.softmax(y, axis=1))]))

    assert set(identities(branched)) > {first, second}


def test_edits_before_a_node_change_it() -> None:
    first, second = identities(stack)
    changed = identities(lambda emit, x: emit(conv(emit(op.nn.relu(emit(conv(emit(op.abs(x)))))))))
    assert not {first, second} & set(changed)
    assert not {first, second} & set(identities(stack, name="other input"))


def test_twins_get_ordinals() -> None:
    def twins(emit: Emit, x: relax.Var) -> relax.Expr:
        one, two = emit(conv(x, seed=1)), emit(conv(x, seed=2))
        return emit(relax.Tuple([emit(conv(one, 16)), emit(conv(two, 16))]))

    one, two, behind_one, behind_two = identities(twins)
    assert two == f"{one}-2"
    assert len({one, two, behind_one, behind_two}) == 4
    # Whoever reads the first twin is the same as if there were no other.
    only = identities(lambda emit, x: emit(conv(emit(conv(x)), 16)))
    assert [one, behind_one] == only
