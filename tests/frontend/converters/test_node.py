"""What a converter is told of its node."""

from __future__ import annotations

import pytest

from tvm_neocpu.core.errors import UnsupportedOperatorError
from tvm_neocpu.frontend.converters.node import read_attributes


def test_defaults_come_from_the_schema_of_the_opset() -> None:
    assert read_attributes("Resize", 10, {}) == {"mode": "nearest"}
    assert read_attributes("Resize", 19, {})["coordinate_transformation_mode"] == "half_pixel"
    assert read_attributes("LpPool", 1, {"kernel_shape": (2,)})["p"] == 2.0


def test_texts_are_decoded_and_given_values_win() -> None:
    read = read_attributes("Resize", 13, {"mode": b"cubic", "cubic_coeff_a": -0.5})
    assert (read["mode"], read["cubic_coeff_a"]) == ("cubic", -0.5)


@pytest.mark.parametrize(
    ("op_type", "opset", "given", "reason"),
    [
        ("Resize", 13, {"antialias": 1}, "opset 13 has no attribute antialias"),
        ("MaxPool", 22, {}, "attribute kernel_shape is missing"),
        ("Resize", 9, {}, "opset 9 has no such operator"),
    ],
)
def test_what_the_opset_does_not_have(
    op_type: str, opset: int, given: dict[str, object], reason: str
) -> None:
    with pytest.raises(UnsupportedOperatorError, match=reason):
        read_attributes(op_type, opset, given)
