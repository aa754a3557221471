"""Instructions that are newer than the emulator, computed here: dot products of i8mm (Armv8.6).

``usdot`` multiplies bytes of different signs. Its forms and their bits are those of the Arm
Architecture Reference Manual, C7.2.
"""

from __future__ import annotations

import numpy as np
from unicorn import Uc
from unicorn.arm64_const import UC_ARM64_REG_Q0

# Bits that name an instruction, and their values.
_VECTORS, _BY_ELEMENT = 0xFFE0FC00, 0xFFC0F400
_USDOT, _USDOT_BY_ELEMENT, _SUDOT_BY_ELEMENT = 0x4E809C00, 0x4F80F000, 0x4F00F000
_BYTES = 16


def execute(cpu: Uc, word: int) -> bool:
    """Compute one instruction; ``False`` for any that is not known here."""
    destination, first, second = word & 31, word >> 5 & 31, word >> 16 & 31
    if word & _VECTORS == _USDOT:
        weights = _register(cpu, second, np.int8)
        data = _register(cpu, first, np.uint8)
    elif word & _BY_ELEMENT in (_USDOT_BY_ELEMENT, _SUDOT_BY_ELEMENT):
        is_sudot = word & _BY_ELEMENT == _SUDOT_BY_ELEMENT
        element = (word >> 11 & 1) << 1 | word >> 21 & 1
        data = _register(cpu, first, np.int8 if is_sudot else np.uint8)
        # L, the element's low bit, stands above M, the fifth bit of the register.
        whole = _register(cpu, second, np.uint8 if is_sudot else np.int8)
        weights = np.tile(whole[4 * element : 4 * element + 4], 4)
    else:
        return False
    products = data.astype(np.int64) * weights.astype(np.int64)
    total = _register(cpu, destination, np.int32) + products.reshape(4, 4).sum(axis=1)
    bits = int.from_bytes((total & 0xFFFFFFFF).astype(np.uint32).tobytes(), "little")
    cpu.reg_write(UC_ARM64_REG_Q0 + destination, bits)
    return True


def _register(cpu: Uc, number: int, dtype: type[np.number]) -> np.ndarray:
    value = int(cpu.reg_read(UC_ARM64_REG_Q0 + number))
    return np.frombuffer(value.to_bytes(_BYTES, "little"), dtype)
