"""Networks by name, built here as ONNX with seeded weights: nothing is downloaded.

    model = build("resnet50", batch=1, seed=0)

Layers and parameter counts are the published ones; the weights are random, sized so that the signal
stays of order one from the first layer to the last. The networks are for measuring speed and for
comparing implementations, not for recognising anything. To add one, write one file like `vgg.py`
and one line in the table of `zoo.py`.
"""

from .network import Network
from .zoo import NETWORKS, build, find, input_shape, names

__all__ = ["NETWORKS", "Network", "build", "find", "input_shape", "names"]
