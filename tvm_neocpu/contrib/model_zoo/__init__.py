"""Networks by name, built as ONNX with seeded weights: nothing is downloaded.

    model = build("resnet50", batch=1, seed=0)

Layers and parameter counts are the published ones. The weights are random and scaled so that the
signal stays near 1 from the first layer to the last. The networks serve to measure speed and to
compare implementations; they recognise nothing (`pretrained.py` takes trained ones from torchvision
where torch is installed). To add a network, write one file like `families/vgg.py`
and one line in the table of `zoo.py`.
"""

from .network import Network
from .zoo import NETWORKS, build, find, input_shape, names

__all__ = ["NETWORKS", "Network", "build", "find", "input_shape", "names"]
