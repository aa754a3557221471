"""Networks of torchvision with their trained weights, exported to ONNX where torch is installed.

    model = pretrained("resnet50")     # torchvision downloads the weights, once
    python -m tvm_neocpu.bench torchvision:resnet50

`pip install 'tvm-neocpu[zoo]'` brings torch, torchvision and the exporter's onnxscript.
"""

from __future__ import annotations

import io
import warnings
from importlib.util import find_spec
from typing import Any

import onnx

from tvm_neocpu.core.errors import MissingPackageError, ShapeError, UnknownModelError

from .builder import INPUT_NAME, OUTPUT_NAME

# What stands before the name on a command line.
PREFIX = "torchvision:"
PACKAGES = ("torch", "torchvision", "onnxscript")
DEFAULT_IMAGE = 224


def pretrained(
    name: str, weights: str | None = "DEFAULT", batch: int = 1, dynamo: bool = True
) -> onnx.ModelProto:
    """torchvision's network as ONNX: input `data` of the weights' own crop, output `output`.

    ``weights`` is a name that torchvision knows, or None for random ones. ``dynamo`` picks
    torch's exporter: the one on torch.export, or the older one on TorchScript.

    Raises MissingPackageError, UnknownModelError for a network or weights that torchvision does not
    have, ShapeError for a batch below 1.
    """
    if batch < 1:
        raise ShapeError(f"the batch must be 1 or more, not {batch}")
    missing = [package for package in PACKAGES if find_spec(package) is None]
    if missing:
        raise MissingPackageError(
            f"{PREFIX}{name} needs {', '.join(missing)}: pip install 'tvm-neocpu[zoo]'"
        )
    import torch

    network, size = _load(name, weights)
    image = torch.zeros(batch, 3, size, size)
    names: dict[str, Any] = {"input_names": [INPUT_NAME], "output_names": [OUTPUT_NAME]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the exporters warn of their own future
        if dynamo:
            return _as_onnx(
                torch.onnx.export(network, (image,), dynamo=True, verbose=False, **names)
            )
        buffer = io.BytesIO()
        torch.onnx.export(network, (image,), buffer, dynamo=False, **names)
    return onnx.load_model_from_string(buffer.getvalue())


def _load(name: str, weights: str | None) -> tuple[Any, int]:
    """The network in inference mode, and the height and width that its weights are made for."""
    from torchvision import models

    try:
        chosen = None if weights is None else models.get_model_weights(name)[weights]
        network = models.get_model(name, weights=chosen)
    except ValueError as error:
        raise UnknownModelError(f"torchvision has no network {name!r}") from error
    except KeyError as error:
        raise UnknownModelError(f"torchvision has no weights {weights!r} of {name}") from error
    crop = getattr(chosen.transforms(), "crop_size", None) if chosen else None
    return network.eval(), crop[0] if crop else DEFAULT_IMAGE


def _as_onnx(program: Any) -> onnx.ModelProto:
    """torch's own program as plain ONNX; its protobuf may be of another onnx than ours."""
    return onnx.load_model_from_string(program.model_proto.SerializeToString())
