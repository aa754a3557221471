"""Running passes, and the debug variable that looks between them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import pytest
import tvm
from tvm import relax

from tvm_neocpu.core.errors import NeoCpuError
from tvm_neocpu.relay_passes.ir.run_passes import DEBUG, run_passes


@dataclass(frozen=True)
class Sign:
    """Add a letter to the module's signature."""

    name: ClassVar[str] = "sign"
    letter: str

    def __call__(self, mod: tvm.IRModule) -> tvm.IRModule:
        return mod.with_attr("signature", signature(mod) + self.letter)


@dataclass(frozen=True)
class Break:
    """Return a variable that nothing binds."""

    name: ClassVar[str] = "break"

    def __call__(self, mod: tvm.IRModule) -> tvm.IRModule:
        ty = relax.TensorType((4,), "float32")
        unbound = relax.SeqExpr([], relax.Var("nowhere", ty))
        return tvm.IRModule({"main": relax.Function([], unbound, ty)})


def signature(mod: tvm.IRModule) -> str:
    return str(mod.attrs["signature"]) if mod.attrs else ""


@pytest.fixture
def mod() -> tvm.IRModule:
    x = relax.Var("x", relax.TensorType((4,), "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        builder.emit_func_output(builder.emit(relax.op.abs(x)))
    return builder.get()


def test_passes_run_in_order(mod: tvm.IRModule) -> None:
    assert signature(run_passes(mod, Sign("a"), Sign("b"), Sign("c"))) == "abc"


def test_print(
    mod: tvm.IRModule, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run_passes(mod, Sign("a"))
    assert capsys.readouterr().err == ""
    monkeypatch.setenv(DEBUG, "print")
    run_passes(mod, Sign("a"), Sign("b"))
    text = capsys.readouterr().err
    assert text.count("# after sign") == text.count("R.abs") == 2
    assert text.index('"a"') < text.index('"ab"')


@pytest.mark.parametrize("wanted", ["verify", "print,verify"])
def test_verify_names_the_pass_that_broke_the_module(
    wanted: str, mod: tvm.IRModule, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_passes(mod, Break())
    monkeypatch.setenv(DEBUG, wanted)
    run_passes(mod, Sign("a"))
    with pytest.raises(ValueError, match="break left a module"):
        run_passes(mod, Sign("a"), Break())


@pytest.mark.parametrize("unknown", ["foo", "1", "Print", "print,foo", "print verify"])
def test_an_unknown_word_is_refused_in_one_line(
    unknown: str, mod: tvm.IRModule, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(DEBUG, unknown)
    with pytest.raises(NeoCpuError) as caught:
        run_passes(mod, Sign("a"))
    assert str(caught.value) == f"{DEBUG} is print, verify or print,verify, not {unknown!r}"


@pytest.mark.parametrize("known", ["", " ", "verify", " print , verify ", "verify,"])
def test_spaces_and_empty_words_are_no_mistake(
    known: str, mod: tvm.IRModule, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(DEBUG, known)
    assert signature(run_passes(mod, Sign("a"))) == "a"
