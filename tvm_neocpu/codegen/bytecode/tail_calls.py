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
from dataclasses import replace

from tvm_neocpu.codegen.bytecode.executable import Executable, Function
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
_LENGTHS = {RET: 2, GOTO: 2, IF: 3}


def with_jumps(executable: Executable, names: Collection[str]) -> Executable:
    """The executable whose functions of these names jump where they call themselves last."""
    table = list(executable.functions)
    if all(function.name != _COPY for function in table):
        return executable
    copy = next(at for at, function in enumerate(table) if function.name == _COPY)
    offsets: list[int] = []
    words: list[int] = []
    for number, function in enumerate(executable.functions):
        if function.kind != BYTECODE:
            continue
        code = [_instruction(executable, at) for at in range(function.start, function.end)]
        registers = function.registers
        if function.name in names:
            code, registers = _jumping(code, function, number, copy)
        start = len(offsets)
        for instruction in code:
            offsets.append(len(words))
            words += instruction
        table[number] = replace(function, start=start, end=len(offsets), registers=registers)
    return executable.replaced(functions=tuple(table), offsets=tuple(offsets), words=tuple(words))


def _jumping(
    code: list[list[int]], function: Function, number: int, copy: int
) -> tuple[list[list[int]], int]:
    """The function's instructions, and how many registers they take.

    What stands in a call's place is behind all others, so that no other jump changes.
    """
    changed, behind, registers = list(code), [], function.registers
    for at, instruction in enumerate(code):
        if instruction[:1] != [CALL] or instruction[2] != number or not _is_last(code, at, copy):
            continue
        arguments = instruction[4:]
        spare = range(function.registers, function.registers + len(arguments))
        begin = len(code) + len(behind)
        changed[at] = [GOTO, begin - at]
        behind += [
            [CALL, register, copy, 1, argument]
            for register, argument in zip(spare, arguments, strict=True)
        ]
        behind += [
            [CALL, parameter, copy, 1, word_of(REGISTER, register)]
            for parameter, register in enumerate(spare)
        ]
        behind.append([GOTO, -(len(code) + len(behind))])
        registers = max(registers, spare.stop)
    return [*changed, *behind], registers


def _is_last(code: list[list[int]], at: int, copy: int) -> bool:
    """Whether the function returns what the call at this place gives, and does nothing else."""
    result = code[at][1]
    at += 1
    while at < len(code):
        instruction = code[at]
        if instruction[0] == RET:
            return instruction[1] == result
        if instruction[0] == GOTO:
            at += instruction[1]
            continue
        passes_on = instruction[0] == CALL and instruction[2] == copy
        if not passes_on or instruction[4:] != [word_of(REGISTER, result)]:
            return False
        result = instruction[1]
        at += 1
    return False


def _instruction(executable: Executable, at: int) -> list[int]:
    words, start = executable.words, executable.offsets[at]
    length = 4 + words[start + 3] if words[start] == CALL else _LENGTHS[words[start]]
    return list(words[start : start + length])
