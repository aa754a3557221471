"""Element types: their widths, and how four of them print."""

from __future__ import annotations

import pytest

from tvm_neocpu.core.types import (
    BF16_WEIGHTS,
    FP16_WEIGHTS,
    FP32,
    U8S8,
    U8S16,
    Types,
    item_bytes,
    product_types,
    uniform,
)

QUANTIZED = Types("uint8", "int8", "int32", "float32")


@pytest.mark.parametrize(
    ("dtype", "size"),
    [("float64", 8), ("float32", 4), ("bfloat16", 2), ("uint8", 1), ("int4", 1), ("bool", 1)],
)
def test_bytes_of_an_element(dtype: str, size: int) -> None:
    assert item_bytes(dtype) == size


@pytest.mark.parametrize("dtype", ["", "float", "handle", "custom[x]32", "int0"])
def test_a_name_without_a_width_is_no_element_type(dtype: str) -> None:
    with pytest.raises(ValueError, match="is no element type"):
        item_bytes(dtype)


def test_one_type_for_all_four_prints_as_one() -> None:
    assert Types("float32", "float32", "float32", "float32") == FP32
    assert FP32.is_uniform
    assert str(uniform("float64")) == "float64"


def test_types_that_differ_print_from_operands_to_result() -> None:
    assert not QUANTIZED.is_uniform
    assert str(QUANTIZED) == "uint8 x int8 -> int32 -> float32"


def test_int32_sums_go_without_saying() -> None:
    assert str(U8S8) == "uint8 x int8"
    assert Types.parse("uint8 x int8 -> int32 -> int32") == U8S8


@pytest.mark.parametrize("types", [FP32, QUANTIZED, U8S8, U8S16], ids=str)
def test_what_prints_is_read_back(types: Types) -> None:
    assert Types.parse(str(types)) == types


@pytest.mark.parametrize(
    "text", ["uint8 x int8 -> int32", "uint8 x", "float", "uint8 x int8 -> int32 -> blue"]
)
def test_other_texts_name_no_types(text: str) -> None:
    with pytest.raises(ValueError, match="element type"):
        Types.parse(text)


def test_mixtures_that_templates_multiply() -> None:
    assert product_types("uint8", "int8", "int32") == U8S8
    assert product_types("uint8", "int16", "int32") == U8S16
    assert product_types("float64", "float64", "float64") == uniform("float64")
    assert product_types("float32", "float16", "float32") == FP16_WEIGHTS
    assert product_types("float32", "bfloat16", "float32") == BF16_WEIGHTS
    assert product_types("float16", "float16", "float32") is None
    assert product_types("int8", "int8", "int32") is None
    assert product_types("uint8", "int8", "float32") is None
