"""Dot products of integers in 32-bit words, as operators that TVM vectorises.

A word holds 4 elements of 8 bits or 2 of 16, the first one in the lowest bits::

    word(data[4 q], data[4 q + 1], data[4 q + 2], data[4 q + 3])    one load, once it is lowered
    acc[c] + dot((that word, weights[q, c]))                        one instruction for a vector

A template writes ``word`` and ``dot``; :mod:`..tir.plant_dots` puts the CPU's instruction in their
place, which TVM vectorises as it does a sum. A vector that no instruction has is plain arithmetic.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache, partial, reduce
from itertools import chain, product

import tvm
from tvm import tirx
from tvm.ir import Call, Expr
from tvm.tirx.op import register_intrin_lowering

from tvm_neocpu.core.machine.dot import ANY_WEIGHTS, WORD_BITS, DotProduct
from tvm_neocpu.core.types import item_bytes

# A word of data and one of weights, or vectors of them.
Pair = tuple[Expr, Expr]
WORD, DOT = "tirx.neocpu_word", "tirx.neocpu_dot"
WORD_TYPE = "int32"
# Weights of these types are packed in words.
PACKED_TYPES = {"int8": WORD_TYPE, "int16": WORD_TYPE}
_PURE = 1  # tirx.CallEffectKind.Pure


def word(*elements: Expr) -> Expr:
    """Neighbours in memory as one word; only :mod:`..tir.plant_dots` gives it a meaning."""
    define(WORD)
    return tirx.call_intrin(WORD_TYPE, WORD, *elements)


def dot(*pairs: Pair, weight_bits: int = ANY_WEIGHTS, needed: Expr | None = None) -> Expr:
    """The products of words of data and weights, added up.

    Only :mod:`..tir.plant_dots` gives it a meaning. Data that are no :func:`word` are words of one
    number of 16 bits and a zero. ``weight_bits``: how small the weights are known to be.
    ``needed`` is a level that :mod:`..tir.skip_parts` looks at.
    """
    define(DOT)
    first = [] if needed is None else [needed]
    return tirx.call_intrin(WORD_TYPE, DOT, weight_bits, *first, *chain(*pairs))


def operands_of(call: Call) -> tuple[int, list[Pair]]:
    """What a :func:`dot` was made of: ``weight_bits``, and the pairs."""
    weight_bits, *operands = call.args
    return int(weight_bits), _paired(operands[len(operands) % 2 :])


def needed_of(call: Call) -> Expr | None:
    """What tells whether a :func:`dot` is needed; ``None`` for one that always is."""
    return None if len(call.args) % 2 else call.args[1]


def of_weights(call: Call, weight_bits: int) -> Expr:
    """The same :func:`dot` of weights that are known to be so small."""
    _, *operands = call.args
    return tirx.call_intrin(WORD_TYPE, DOT, weight_bits, *operands)


def accumulate(total: Expr, pairs: Iterable[Pair], by: DotProduct) -> Expr:
    """``total + dot(*pairs)`` by an instruction, chosen once the lanes are known.

    One for as many pairs as it takes at once.
    """
    name = f"tirx.neocpu_{by.name}_{by.data}_{by.words}x{max(by.widths, default=0)}"
    define(name, by, _lowered)
    operands = list(pairs)
    for at in range(0, len(operands), by.words):
        at_once = chain(*operands[at : at + by.words])
        total = tirx.call_intrin(WORD_TYPE, name, total, *at_once)
    return total


def _paired(operands: Sequence[Expr]) -> list[Pair]:
    return list(zip(operands[::2], operands[1::2], strict=True))


@cache
def define(
    name: str, by: DotProduct | None = None, lowered: Callable[..., Expr] | None = None
) -> None:
    """Make an operator known to TVM, once, when it is first used.

    ``lowered(call, by=by)`` is what code generation puts in place of a call; of one for each
    register, if ``by`` has registers and the call has more lanes.
    """
    tvm.ir.register_op_attr(name, "TCallEffectKind", _PURE)
    tvm.ir.register_op_attr(name, "TVectorizable", True)
    tvm.ir.register_op_attr(name, "TScriptPrinterName", name.removeprefix("tirx."))
    if lowered is not None:
        each = lowered if by is None else partial(_by_registers, lowered=lowered)
        register_intrin_lowering(name, "llvm", f=partial(each, by=by), level=99)


def _by_registers(call: Call, lowered: Callable[..., Expr], by: DotProduct) -> Expr:
    """A call of more lanes than the instruction has, as one for each register, side by side.

    A tile's sums are then as wide in memory as what its epilogue reads: LLVM keeps them in
    registers. Of other widths it stores all of them and loads them again.
    """
    lanes, widest = lanes_of(call), max(by.widths, default=0) // WORD_BITS
    if not widest or lanes <= widest or lanes % widest:
        return lowered(call, by=by)

    def part(operand: Expr, first: int) -> Expr:
        if isinstance(operand, tirx.Broadcast):
            return tirx.Broadcast(operand.value, widest)
        return picked([operand], range(first, first + widest))

    dtype = f"{str(call.ty.dtype).partition('x')[0]}x{widest}"
    parts = [
        tirx.call_intrin(dtype, call.op.name, *(part(each, at) for each in call.args))
        for at in range(0, lanes, widest)
    ]
    parts = [lowered(each, by=by) for each in parts]
    return picked(parts, range(lanes))


def picked(vectors: Sequence[Expr], picks: Iterable[int]) -> Expr:
    """Lanes of vectors that stand one behind the other."""
    return tirx.Shuffle(vectors, [tirx.const(at, "int32") for at in picks])


def _lowered(call: Call, by: DotProduct) -> Expr:
    total, *operands = call.args
    pairs, lanes = _paired(operands), lanes_of(call)
    bits = lanes * WORD_BITS
    forms = _INSTRUCTIONS.get(by.name, {})
    if bits not in by.widths or bits not in forms:
        for pair in pairs:
            products = _of_one_word(pair, by) if lanes == 1 else _of_words(pair, by, lanes)
            total = reduce(operator.add, products, total)
        return total
    form = forms[bits]

    def as_elements(words: Expr, dtype: str) -> Expr:
        return _taken_apart(words, dtype, bits // 8 // item_bytes(dtype))

    elements = [(as_elements(x, form.data), as_elements(w, form.weight)) for x, w in pairs]
    return form.call(total, elements, f"{WORD_TYPE}x{lanes}")


def lanes_of(value: Expr) -> int:
    return int(value.ty.dtype.lanes)


def _of_words(pair: Pair, by: DotProduct, lanes: int) -> list[Expr]:
    """The definition, element by element of a word: what the instructions are tested against."""
    return [
        operator.mul(
            *(
                _element(each, at, by.elements, dtype.startswith("u"), lanes)
                for each, dtype in zip(pair, (by.data, by.weight), strict=True)
            )
        )
        for at in range(by.elements)
    ]


def _of_one_word(pair: Pair, by: DotProduct) -> list[Expr]:
    """The same of a single word, as a vector of its elements.

    Taken apart by shifts, LLVM 22 computes wrong sums of them: its SLP pass makes vectors in which
    lanes of ``and`` and of shifts alternate, and X86 merges these by an ``or`` of lanes that are
    not zero (found with tiles of 5 pixels x 1 channel on AVX2; right with ``-opt-level=1``).
    """
    factors = [
        _taken_apart(each, dtype, by.elements).astype(f"{WORD_TYPE}x{by.elements}")
        for each, dtype in zip(pair, (by.data, by.weight), strict=True)
    ]
    return [tirx.call_llvm_pure_intrin(WORD_TYPE, "llvm.vector.reduce.add", operator.mul(*factors))]


def _taken_apart(words: Expr, dtype: str, elements: int) -> Expr:
    """The words' elements as a vector. TVM generates no code for those of a zero, which is what it
    makes of a row of padding.
    """
    word = words.value if isinstance(words, tirx.Broadcast) else words
    if isinstance(word, tirx.IntImm) and int(word.value) == 0:
        return tirx.Broadcast(tirx.const(0, dtype), elements)
    return tirx.reinterpret(f"{dtype}x{elements}", words)


def _element(word: Expr, at: int, elements: int, is_unsigned: bool, lanes: int) -> Expr:
    """One element of a word, extended to 32 bits: shifted to the top, and down again."""
    bits = WORD_BITS // elements
    top = word << whole(WORD_BITS - bits * (at + 1), lanes)
    if not is_unsigned:
        return top >> whole(WORD_BITS - bits, lanes)
    return (word >> whole(bits * at, lanes)) & whole(2**bits - 1, lanes)


def whole(value: int, lanes: int, dtype: str = WORD_TYPE) -> Expr:
    """The same number in each lane of a vector, whose elements are words by default."""
    constant = tirx.const(value, dtype)
    return constant if lanes == 1 else tirx.Broadcast(constant, lanes)


def vector_of(dtype: str, lanes: int) -> str:
    """TVM's name of a vector's type; of one element the element's."""
    return dtype if lanes == 1 else f"{dtype}x{lanes}"


@dataclass(frozen=True)
class _Instruction:
    """How LLVM's intrinsic takes its operands: their types, and the call."""

    data: str
    weight: str
    call: Callable[[Expr, Sequence[Pair], str], Expr]


def _fused(intrinsic: str, total: Expr, pairs: Sequence[Pair], dtype: str) -> Expr:
    for pair in pairs:
        total = tirx.call_llvm_pure_intrin(dtype, intrinsic, total, *pair)
    return total


def _added(intrinsic: str, total: Expr, pairs: Sequence[Pair], dtype: str) -> Expr:
    for pair in pairs:
        total = total + tirx.call_llvm_pure_intrin(dtype, intrinsic, *pair)
    return total


def _in_16_bits(
    bytewise: str, widening: str, total: Expr, pairs: Sequence[Pair], dtype: str
) -> Expr:
    """Pairs of bytes, of all words, as sums of 16 bits; times one and in pairs: sums of 32."""
    lanes = 2 * lanes_of(total)
    products = [tirx.call_llvm_pure_intrin(f"int16x{lanes}", bytewise, *pair) for pair in pairs]
    ones = tirx.Broadcast(tirx.const(1, "int16"), lanes)
    sums = reduce(operator.add, products)
    return total + tirx.call_llvm_pure_intrin(dtype, widening, sums, ones)


def _by_halves(total: Expr, pairs: Sequence[Pair], dtype: str) -> Expr:
    """Low halves, then high ones: LLVM makes widening multiply-adds of both.

    A word of data that is broadcast gives all lanes its first two halves: ``smlal`` multiplies with
    one element of a register then, where it would take halves of all words apart.
    """
    lanes = lanes_of(total)
    for (data, weights), half in product(pairs, (0, 1)):
        is_broadcast = isinstance(data, Call) and isinstance(data.args[0], tirx.Broadcast)
        own = range(half, 2 * lanes, 2)
        first = [half] * lanes if is_broadcast else own
        low, high = (
            tirx.Shuffle([each], [tirx.const(at, "int32") for at in picks]).astype(dtype)
            for each, picks in ((data, first), (weights, own))
        )
        total = total + low * high
    return total


def _bytes_apart(intrinsic: str, total: Expr, pairs: Sequence[Pair], dtype: str) -> Expr:
    """Bytes 0 and 2 of every word as 16 bits, and bytes 1 and 3: two products of two each."""
    lanes = 2 * lanes_of(total)
    eight, low = (tirx.Broadcast(tirx.const(bits, "int16"), lanes) for bits in (8, 255))

    def halves(data: Expr, weights: Expr) -> tuple[Pair, Pair]:
        unsigned = _taken_apart(data, "uint16", lanes)
        odd = unsigned >> tirx.Broadcast(tirx.const(8, "uint16"), lanes)
        even = data & low, (weights << eight) >> eight
        return even, (tirx.reinterpret(f"int16x{lanes}", odd), weights >> eight)

    return _added(intrinsic, total, [half for pair in pairs for half in halves(*pair)], dtype)


# By the instruction's name and the bits of a vector.
_INSTRUCTIONS: dict[str, dict[int, _Instruction]] = {
    "vpdpbusd": {
        bits: _Instruction("uint8", "int8", partial(_fused, f"llvm.x86.avx512.vpdpbusd.{bits}"))
        for bits in (128, 256, 512)
    },
    "vpdpwssd": {
        bits: _Instruction("int16", "int16", partial(_fused, f"llvm.x86.avx512.vpdpwssd.{bits}"))
        for bits in (128, 256, 512)
    },
    "vpmaddwd": {
        bits: _Instruction("int16", "int16", partial(_added, f"llvm.x86.{intrinsic}"))
        for bits, intrinsic in (
            (128, "sse2.pmadd.wd"),
            (256, "avx2.pmadd.wd"),
            (512, "avx512.pmaddw.d.512"),
        )
    },
    "vpmaddubsw": {
        bits: _Instruction(
            "uint8",
            "int8",
            partial(_in_16_bits, f"llvm.x86.{bytewise}", f"llvm.x86.{widening}"),
        )
        for bits, bytewise, widening in (
            (128, "ssse3.pmadd.ub.sw.128", "sse2.pmadd.wd"),
            (256, "avx2.pmadd.ub.sw", "avx2.pmadd.wd"),
            (512, "avx512.pmaddubs.w.512", "avx512.pmaddw.d.512"),
        )
    },
    "bytes": {
        bits: _Instruction("int16", "int16", partial(_bytes_apart, f"llvm.x86.{intrinsic}"))
        for bits, intrinsic in ((256, "avx2.pmadd.wd"), (512, "avx512.pmaddw.d.512"))
    },
    "usdot": {
        128: _Instruction("int8", "int8", partial(_fused, "llvm.aarch64.neon.usdot")),
    },
    "sdot": {
        128: _Instruction("int8", "int8", partial(_fused, "llvm.aarch64.neon.sdot")),
    },
    "smlal": {128: _Instruction("int16", "int16", _by_halves)},
}
