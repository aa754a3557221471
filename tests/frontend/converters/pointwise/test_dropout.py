"""Dropout gives what ONNX Runtime gives at inference, and refuses to train."""

from __future__ import annotations

import numpy as np
import pytest
from onnx_node import Case, check_together, image, node_model

from tvm_neocpu import relay
from tvm_neocpu.core.errors import UnsupportedOperatorError

X = image(2, 3, 4)


@pytest.mark.parametrize("opset", [7, 10, 12, 22])
def test_a_mask_keeps_everything(opset: int) -> None:
    ratio = [np.float32(0.3)] if opset >= 12 else []
    check_together([Case("Dropout", [X], ratio, outputs=2), Case("Dropout", [X])], opset)


def test_training_without_a_loss() -> None:
    constants = [np.float32(0), np.array(True)]
    check_together([Case("Dropout", [X], constants, outputs=2)], 13)


@pytest.mark.parametrize("ratio", [None, np.float32(0.3)])
def test_training_is_refused(ratio: np.float32 | None) -> None:
    given = None if ratio is None else np.asarray(ratio)
    model = node_model("Dropout", [X], [given, np.array(True)], opset=13)
    with pytest.raises(UnsupportedOperatorError, match="training_mode draws random numbers"):
        relay.frontend.from_onnx(model)
