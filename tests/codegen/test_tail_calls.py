"""A loop's call of itself becomes a jump; where it cannot, the build says so."""

from __future__ import annotations

import pytest

from tvm_neocpu.codegen.bytecode.executable import Executable, Function, UnknownBytecodeError
from tvm_neocpu.codegen.bytecode.tail_calls import with_jumps
from tvm_neocpu.codegen.bytecode.words import BYTECODE, CALL, GOTO, IF, REGISTER, RET, word_of

STEP, LOOP, COPY = 0, 1, 2
ARGUMENT = word_of(REGISTER, 0)


def executable(*code: list[int], builtins: tuple[str, ...] = ("vm.builtin.copy",)) -> Executable:
    """A function ``loop`` of one parameter, behind a function ``step``."""
    words = [word for instruction in code for word in instruction]
    offsets = tuple(sum(map(len, code[:at])) for at in range(len(code)))
    table = (
        Function(0, "step", 0, 0, 0, 0, ()),
        Function(BYTECODE, "loop", 0, len(code), 1, 3, ("x",)),
        *(Function(0, name, 0, 0, 0, 0, ()) for name in builtins),
    )
    return Executable(table, (), (), offsets, tuple(words))


def test_a_call_of_itself_before_the_return_is_a_jump() -> None:
    made = with_jumps(executable([CALL, 1, LOOP, 1, ARGUMENT], [RET, 1]), ["loop"])
    begins = [made.words[at] for at in made.offsets]
    assert begins == [GOTO, RET, CALL, CALL, GOTO]
    assert made.words[-1] == -4 and made.functions[LOOP].registers == 4


def test_a_check_stands_before_the_jump() -> None:
    """It is a function more; where its result is not 0, a copy of nothing is an error."""
    made = with_jumps(executable([CALL, 1, LOOP, 1, ARGUMENT], [RET, 1]), ["loop"], "check")
    code = [
        list(made.words[start:end])
        for start, end in zip(made.offsets, [*made.offsets[1:], len(made.words)], strict=True)
    ]
    assert made.functions[3] == Function(0, "check", 0, 0, 0, 0, ())
    assert code[4:] == [[CALL, 4, 3, 0], [IF, 4, 2], [CALL, 4, COPY, 0], [GOTO, -7]]
    assert made.functions[LOOP].registers == 5


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (
            ([CALL, 1, LOOP, 1, ARGUMENT], [CALL, 2, STEP, 1, ARGUMENT], [RET, 1]),
            "loop does more after it calls itself",
        ),
        (([CALL, 1, LOOP, 1, ARGUMENT], [RET, 0]), "loop does more after it calls itself"),
        (([CALL, 1, STEP, 1, ARGUMENT], [RET, 1]), "loop is a loop and does not call itself"),
    ],
)
def test_a_loop_that_would_take_stack_is_refused(code: tuple[list[int], ...], said: str) -> None:
    with pytest.raises(UnknownBytecodeError, match=said):
        with_jumps(executable(*code), ["loop"])


def test_a_loop_without_the_builtin_that_jumps_need_is_refused() -> None:
    with pytest.raises(UnknownBytecodeError, match="copy"):
        with_jumps(executable([RET, 0], builtins=()), ["loop"])
