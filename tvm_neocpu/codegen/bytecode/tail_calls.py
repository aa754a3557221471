"""Calls of a function to itself that are the last thing it does: jumps to its begin.

    loop(%0, %1):                       loop(%0, %1):
      ...                                 ...
      call  loop in: %7, %1  dst: %9      call  copy in: %7  dst: %12
      goto  5                             call  copy in: %1  dst: %13
      ...                                 call  copy in: %12 dst: %0
      ret   %9                            call  copy in: %13 dst: %1
                                          goto  -30

The machine would call itself for each trip of a loop: its stack ends after some thousand, and
each frame keeps the tensors of its trip. Relax says no loop, its machine runs one.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from tvm_neocpu.codegen.bytecode.executable import Executable, Function, UnknownBytecodeError
from tvm_neocpu.codegen.bytecode.words import (
    BYTECODE,
    CALL,
    GOTO,
    IF,
    REGISTER,
    RET,
    word_of,
)

_COPY = "vm.builtin.copy"
# What frees a register: TVM writes it between the call and the return.
_FREE = "vm.builtin.null_value"
_LENGTHS = {RET: 2, GOTO: 2, IF: 3}


def with_jumps(
    executable: Executable, names: Collection[str], check: str | None = None
) -> Executable:
    """The executable whose functions of these names jump where they call themselves last.

    Before each jump they call the function ``check``; the run ends by an error where its result is
    not 0.
    Raises UnknownBytecodeError where one of them does not: deep loops would overflow the stack.
    """
    table = list(executable.functions)
    places = {function.name: at for at, function in enumerate(table)}
    if _COPY not in places:
        raise UnknownBytecodeError(f"the bytecode has loops, and no {_COPY}")
    known = _Builtins(places[_COPY], places.get(_FREE), None if check is None else len(table))
    if check is not None:
        table.append(Function(0, check, 0, 0, 0, 0, ()))
    offsets: list[int] = []
    words: list[int] = []
    for number, function in enumerate(executable.functions):
        if function.kind != BYTECODE:
            continue
        code = [_instruction(executable, at) for at in range(function.start, function.end)]
        registers = function.registers
        if function.name in names:
            code, registers = _jumping(code, function, number, known)
        start = len(offsets)
        for instruction in code:
            offsets.append(len(words))
            words += instruction
        table[number] = replace(function, start=start, end=len(offsets), registers=registers)
    return executable.replaced(functions=tuple(table), offsets=tuple(offsets), words=tuple(words))


@dataclass(frozen=True)
class _Builtins:
    """Places in the table of functions."""

    copy: int
    free: int | None
    check: int | None


def _jumping(
    code: list[list[int]], function: Function, number: int, known: _Builtins
) -> tuple[list[list[int]], int]:
    """The function's instructions, and how many registers they take.

    What stands in a call's place is behind all others, so that no other jump changes.

    Raises UnknownBytecodeError where it never calls itself, or does anything after such a call.
    """
    changed, behind, registers = list(code), [], function.registers
    for at, instruction in enumerate(code):
        if instruction[:1] != [CALL] or instruction[2] != number:
            continue
        freed = _freed_before_return(code, at, known)
        if freed is None:
            raise UnknownBytecodeError(f"{function.name} does more after it calls itself")
        arguments = instruction[4:]
        spare = range(function.registers, function.registers + len(arguments))
        begin = len(code) + len(behind)
        changed[at] = [GOTO, begin - at]
        behind += [
            [CALL, register, known.copy, 1, argument]
            for register, argument in zip(spare, arguments, strict=True)
        ]
        behind += [
            [CALL, parameter, known.copy, 1, word_of(REGISTER, register)]
            for parameter, register in enumerate(spare)
        ]
        behind += [each for each in freed if each[1] >= len(arguments)]
        if known.check is not None:
            # 0 skips what follows the test: a copy of nothing, which is an error.
            behind.append([CALL, spare.stop, known.check, 0])
            behind.append([IF, spare.stop, 2])
            behind.append([CALL, spare.stop, known.copy, 0])
        behind.append([GOTO, -(len(code) + len(behind))])
        registers = max(registers, spare.stop + (known.check is not None))
    if not behind:
        raise UnknownBytecodeError(f"{function.name} is a loop and does not call itself")
    return [*changed, *behind], registers


def _freed_before_return(
    code: list[list[int]], at: int, known: _Builtins
) -> list[list[int]] | None:
    """What frees registers between the call at this place and the return of its result.

    ``None`` where the function does anything else after the call.
    """
    result = code[at][1]
    freed = []
    at += 1
    while at < len(code):
        instruction = code[at]
        if instruction[0] == RET:
            return freed if instruction[1] == result else None
        if instruction[0] == GOTO:
            at += instruction[1]
            continue
        if instruction[0] != CALL:
            return None
        if instruction[2] == known.free and instruction[1] != result:
            freed.append(instruction)
        elif instruction[2] == known.copy and instruction[4:] == [word_of(REGISTER, result)]:
            result = instruction[1]
        else:
            return None
        at += 1
    return None


def _instruction(executable: Executable, at: int) -> list[int]:
    words, start = executable.words, executable.offsets[at]
    length = 4 + words[start + 3] if words[start] == CALL else _LENGTHS[words[start]]
    return list(words[start : start + length])
