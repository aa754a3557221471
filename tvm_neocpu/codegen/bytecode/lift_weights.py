"""Weights out of an executable's constants: functions get them as their last arguments instead.

    call  fused_conv2d in: %0, c[6], %2       main(%0)
      ->
    call  fused_conv2d in: %0, %1, %3         main(%0, %1 = the weight)

Constants of TVM's executables are copied from the file as it is read. Arguments may lie wherever
the caller has them: in the file, mapped.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from tvm_neocpu.codegen.bytecode.executable import (
    TENSOR,
    Constant,
    Executable,
    Function,
)
from tvm_neocpu.codegen.bytecode.words import (
    BYTECODE,
    CALL,
    CONSTANT,
    FUNCTION,
    GOTO,
    IF,
    REGISTER,
    RET,
    SPECIAL,
    kind_of,
    value_of,
    word_of,
)

# Smaller constants stay where they are: one more argument would cost more than it saves.
MIN_BYTES = 1024
# Types that every reader has; others stay constants.
TYPES = ("float32", "float16", "float64", "int8", "uint8", "int16", "int32", "int64")


@dataclass(frozen=True)
class Lifted:
    """The executable without its weights; which of ``weights`` each function takes, in order.

    ``numbers`` are those of the weights among the constants as they were.
    """

    executable: Executable
    weights: tuple[Constant, ...]
    taken: Mapping[str, tuple[int, ...]]
    numbers: tuple[int, ...]


def lift_weights(executable: Executable, late: Collection[int] = ()) -> Lifted | None:
    """``None`` where there is nothing to lift, or a function is passed around as a value.

    Constants of the numbers in ``late`` are weights, however small they are.
    """
    large = [
        index
        for index, constant in enumerate(executable.constants)
        if index in late
        or (constant.type == TENSOR and constant.dtype in TYPES and len(constant.data) >= MIN_BYTES)
    ]
    if not large or _passes_functions(executable):
        return None
    lifted = set(large)
    needs = _needs(executable, lifted)
    kept = [index for index in range(len(executable.constants)) if index not in lifted]
    places = {old: new for new, old in enumerate(kept)}
    functions, offsets, words = [], [], []
    for function in executable.functions:
        if function.kind != BYTECODE:
            functions.append(function)
            continue
        start = len(offsets)
        for instruction in range(function.start, function.end):
            offsets.append(len(words))
            words += _rewritten(executable, function, instruction, needs, places)
        functions.append(_widened(function, len(needs[function.name]), start, len(offsets)))
    changed = executable.replaced(
        functions=tuple(functions),
        scopes=tuple((places[i], scope) for i, scope in executable.scopes if i in places),
        constants=tuple(executable.constants[index] for index in kept),
        offsets=tuple(offsets),
        words=tuple(words),
    )
    numbers = {index: number for number, index in enumerate(large)}
    taken = {name: tuple(numbers[i] for i in found) for name, found in needs.items() if found}
    weights = tuple(executable.constants[index] for index in large)
    return Lifted(changed, weights, taken, tuple(large))


def _needs(executable: Executable, large: set[int]) -> dict[str, tuple[int, ...]]:
    """The large constants that each function reads, itself or in what it calls."""
    table = executable.functions
    with_code = [function for function in table if function.kind == BYTECODE]
    own: dict[str, set[int]] = {}
    calls: dict[str, set[str]] = {}
    for function in with_code:
        own[function.name], calls[function.name] = set(), set()
        for callee, arguments in _calls(executable, function):
            own[function.name] |= {v for k, v in arguments if k == CONSTANT} & large
            if table[callee].kind == BYTECODE:
                calls[function.name].add(table[callee].name)
    is_growing = True
    while is_growing:
        is_growing = False
        for name, callees in calls.items():
            reached = set().union(own[name], *(own[callee] for callee in callees))
            is_growing |= reached != own[name]
            own[name] = reached
    return {name: tuple(sorted(found)) for name, found in own.items()}


def _rewritten(
    executable: Executable,
    function: Function,
    instruction: int,
    needs: Mapping[str, tuple[int, ...]],
    places: Mapping[int, int],
) -> list[int]:
    """The words of one instruction after the change."""
    here = needs[function.name]
    inside = {constant: function.arguments + k for k, constant in enumerate(here)}

    def register(number: int) -> int:
        moves = function.arguments <= number < SPECIAL
        return number + len(here) if moves else number

    def argument(word: int) -> int:
        kind, value = kind_of(word), value_of(word)
        if kind == REGISTER:
            return word_of(REGISTER, register(value))
        if kind != CONSTANT:
            return word
        if value in inside:
            return word_of(REGISTER, inside[value])
        return word_of(CONSTANT, places[value])

    words = executable.words
    at = executable.offsets[instruction]
    if words[at] == CALL:
        target, callee, count = words[at + 1 : at + 4]
        arguments = [argument(word) for word in words[at + 4 : at + 4 + count]]
        called = executable.functions[callee]
        if called.kind == BYTECODE:
            arguments += [word_of(REGISTER, inside[constant]) for constant in needs[called.name]]
        return [CALL, register(target), callee, len(arguments), *arguments]
    if words[at] == RET:
        return [RET, register(words[at + 1])]
    if words[at] == IF:
        return [IF, register(words[at + 1]), words[at + 2]]
    return [GOTO, words[at + 1]]


def _widened(function: Function, more: int, start: int, end: int) -> Function:
    names = function.parameters
    if names:
        names = (*names, *(f"weight_{number}" for number in range(more)))
    return replace(
        function,
        start=start,
        end=end,
        arguments=function.arguments + more,
        registers=function.registers + more,
        parameters=names,
    )


def _calls(
    executable: Executable, function: Function
) -> Sequence[tuple[int, list[tuple[int, int]]]]:
    """What a function calls: the place in the table, and kind and value of each argument."""
    found = []
    for instruction in range(function.start, function.end):
        at = executable.offsets[instruction]
        if executable.words[at] == CALL:
            callee, count = executable.words[at + 2 : at + 4]
            arguments = executable.words[at + 4 : at + 4 + count]
            found.append((callee, [(kind_of(word), value_of(word)) for word in arguments]))
    return found


def _passes_functions(executable: Executable) -> bool:
    """Whether a function with bytecode is an argument: who calls it then is not known here."""
    return any(
        kind == FUNCTION and executable.functions[value].kind == BYTECODE
        for function in executable.functions
        if function.kind == BYTECODE
        for _, arguments in _calls(executable, function)
        for kind, value in arguments
    )
