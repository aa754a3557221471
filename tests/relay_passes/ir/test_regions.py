"""Regions: where they begin and end, what goes in and out, and how often variables are read."""

from __future__ import annotations

import tvm
from tvm import relax
from tvm.script import ir as I
from tvm.script import relax as R

from tvm_neocpu.relay_passes.ir.regions import (
    Region,
    bindings_of,
    count_module_uses,
    count_uses,
    regions_of,
    relax_functions,
)


@I.ir_module
class Straight:
    @R.function
    def main(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        with R.dataflow():
            y: R.Tensor((4,), "float32") = R.exp(x)
            z: R.Tensor((4,), "float32") = R.add(y, x)
            R.output(z)
        return z


@I.ir_module
class Cast:
    @R.function
    def main(x: R.Tensor("float32", ndim=1)) -> R.Tensor((4,), "float32"):
        with R.dataflow():
            a = R.exp(x)
            b = R.match_cast(R.sin(a), R.Tensor((4,), "float32"))
            c = R.abs(b)
            R.output(c)
        return c


@I.ir_module
class Branch:
    @R.function
    def main(x: R.Tensor((4,), "float32"), flag: R.Tensor((), "bool")):
        a = R.exp(x)
        b = R.abs(a)
        if flag:
            c = R.add(b, b)
            d = R.negative(c)
            y = R.abs(d)
        else:
            e = R.add(a, b)
            y = R.abs(e)
        z = R.sin(y)
        return (z, a)


@I.ir_module
class Impure:
    @R.function(pure=False)
    def main(x: R.Tensor((4,), "float32")):
        a = R.exp(x)
        b = R.call_packed("touch", a, ty_args=R.Tensor((4,), "float32"))  # noqa: F841
        c = R.abs(a)
        return c


def names(found: tuple[relax.Var, ...]) -> str:
    return " ".join(var.name for var in found)


def shown(mod: tvm.IRModule) -> list[tuple[str, str, str]]:
    """(inputs, bound variables, outputs) of each region."""
    return [
        (names(r.inputs), names(tuple(b.var for b in r.bindings)), names(r.outputs))
        for r in regions_of(mod["main"])
    ]


def test_a_straight_line_is_one_region() -> None:
    assert shown(Straight) == [("x", "y z", "z")]
    assert [b.var.name for b in bindings_of(Straight["main"])] == ["y", "z"]


def test_a_cast_ends_a_region() -> None:
    before, after = shown(Cast)
    assert (before[0], before[1].split()[0]) == ("x", "a")
    assert after == ("b", "c", "c")


def test_branches_have_regions_of_their_own() -> None:
    first, yes, no, last = shown(Branch)
    assert first == ("x", "a b", "a b")
    assert yes[:2] == ("b", "c d y_then")
    assert no[:2] == ("a b", "e y_else")
    assert last == ("y", "z", "z")


def test_an_impure_call_ends_a_region() -> None:
    assert shown(Impure) == [("x", "a", "a"), ("a", "c", "c")]


def test_reads_are_counted_inside_of_branches_too() -> None:
    uses = {var.name: count for var, count in count_uses(Branch["main"]).items()}
    assert (uses["a"], uses["b"], uses["flag"], uses["x"]) == (3, 3, 1, 1)
    both = tvm.IRModule({"f": Branch["main"], "g": Straight["main"]})
    assert count_module_uses(both).total() == sum(
        count_uses(func).total() for _, func in relax_functions(both)
    )


def test_a_region_without_readers_has_no_outputs() -> None:
    bindings = tuple(bindings_of(Straight["main"]))
    assert Region(bindings[:1], count_uses(Straight["main"])).outputs == (bindings[0].var,)
    assert (
        Region(bindings, count_uses(Straight["main"]) - count_uses(Straight["main"])).outputs == ()
    )
