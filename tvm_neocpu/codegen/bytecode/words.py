"""The words of an instruction: operations, and what an argument is.

CALL  result, function, count, arguments      RET  register
IF    register, offset where it is false      GOTO offset
"""

from __future__ import annotations

CALL, RET, GOTO, IF = 1, 2, 3, 4
# Kinds of an argument.
REGISTER, CONSTANT, FUNCTION = 0, 2, 3
# Registers from here on are names of something else, such as the machine itself.
SPECIAL = 1 << 54
# The kind of a function that has instructions.
BYTECODE = 1
_KIND_SHIFT = 56
_VALUE_MASK = (1 << _KIND_SHIFT) - 1


def kind_of(word: int) -> int:
    return (word >> _KIND_SHIFT) & 0xFF


def value_of(word: int) -> int:
    value = word & _VALUE_MASK
    return value - (1 << _KIND_SHIFT) if value >> (_KIND_SHIFT - 1) else value


def word_of(kind: int, value: int) -> int:
    return (kind << _KIND_SHIFT) | (value & _VALUE_MASK)
