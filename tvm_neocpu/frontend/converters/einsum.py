"""Einsum of two operands as a batched matrix product, which the dense templates take.

nkp,ncp->nkc:   y = matmul(a, permute(b, n p c))          # batch n, rows k, inner p, columns c
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from tvm import relax

from tvm_neocpu.core.types import FOLDED
from tvm_neocpu.frontend.converters.node import Node
from tvm_neocpu.relay_passes.ir.tensor_types import static_shape_of


@dataclass(frozen=True)
class _Product:
    """The letters of an equation, by what a matrix product makes of them."""

    batch: str
    rows: str
    inner: str
    columns: str


def einsum(node: Node) -> relax.Expr:
    """A matrix product where the equation is one; else TVM's own, which needs letters."""
    equation = str(node.attributes["equation"]).replace(" ", "")
    if not any(letter.isalpha() or letter == "." for letter in equation):
        product = node.data
        for place in range(1, len(node.inputs)):
            product = node.emit(relax.op.multiply(product, node.required(place)))
        return product
    operands, arrow, result = equation.partition("->")
    terms = operands.split(",")
    shapes = [static_shape_of(each.ty) for each in node.inputs if each is not None]
    if not arrow or len(terms) != 2 or len(shapes) != 2 or node.dtype not in FOLDED:
        return node.by_tvm()
    letters = _letters(terms[0], terms[1], result)
    extents = _extents(terms, shapes)
    if letters is None or extents is None:
        return node.by_tvm()
    return _product(node, terms, result, letters, extents)


def _letters(one: str, other: str, result: str) -> _Product | None:
    """``None`` for an equation with a diagonal, an ellipsis, or a sum within one operand."""
    terms = (one, other, result)
    if not all(term.isalpha() and len(set(term)) == len(term) for term in terms):
        return None
    if set(result) - set(one + other) or (set(one) ^ set(other)) - set(result):
        return None
    inner = "".join(letter for letter in one if letter in other and letter not in result)
    if not inner:
        return None
    batch = "".join(letter for letter in result if letter in one and letter in other)
    rows = "".join(letter for letter in result if letter not in other)
    columns = "".join(letter for letter in result if letter not in one)
    return _Product(batch, rows, inner, columns)


def _extents(terms: list[str], shapes: list[tuple[int, ...] | None]) -> dict[str, int] | None:
    """The extent of each letter; ``None`` if one is not known, zero or broadcast."""
    extents: dict[str, int] = {}
    for term, shape in zip(terms, shapes, strict=True):
        if shape is None or len(shape) != len(term):
            return None
        for letter, extent in zip(term, shape, strict=True):
            if extent == 0 or extents.setdefault(letter, extent) != extent:
                return None
    return extents


def _product(
    node: Node, terms: list[str], result: str, letters: _Product, extents: dict[str, int]
) -> relax.Expr:
    outer = [letters.batch] if letters.batch else []

    def matrices(place: int, *groups: str) -> relax.Expr:
        """The operand with one axis for each group of letters."""
        moved = _permuted(node, node.required(place), terms[place], "".join([*outer, *groups]))
        sizes = [math.prod(extents[letter] for letter in group) for group in (*outer, *groups)]
        return node.emit(relax.op.reshape(moved, sizes))

    one = matrices(0, letters.rows, letters.inner)
    other = matrices(1, letters.inner, letters.columns)
    product = node.emit(relax.op.matmul(one, other))
    found = letters.batch + letters.rows + letters.columns
    whole = node.emit(relax.op.reshape(product, [extents[letter] for letter in found]))
    return _permuted(node, whole, found, result)


def _permuted(node: Node, data: relax.Expr, letters: str, wanted: str) -> relax.Expr:
    if letters == wanted:
        return data
    order = [letters.index(letter) for letter in wanted]
    return node.emit(relax.op.permute_dims(data, order))
