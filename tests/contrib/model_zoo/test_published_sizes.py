"""Parameters and multiply-adds of every network against the published ones, on sketches.

A sketch has no weights: the whole table takes seconds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

import onnx
import pytest

from tvm_neocpu.contrib.model_zoo import find, names


@dataclass(frozen=True)
class Published:
    """Trained parameters and billions of multiply-adds, and how exactly the source states them.

    The tolerance of the parameters is 0 where the source counts them one by one.
    """

    parameters: float
    billions: float
    source: str
    parameters_within: float = 0.0
    billions_within: float = 0.002


TORCHVISION = "torchvision 0.29, `meta` of the weights"
TORCHVISION_LESS = "the same, less its auxiliary classifiers"
# torchvision's frozen batch norms have no parameters; those of its ResNet-50 have 53,120.
FROZEN = 53_120

PUBLISHED = {
    "resnet18": Published(11_689_512, 1.814, TORCHVISION),
    "resnet34": Published(21_797_672, 3.664, TORCHVISION),
    "resnet50": Published(25_557_032, 4.089, TORCHVISION),
    "resnet101": Published(44_549_160, 7.801, TORCHVISION),
    "resnet152": Published(60_192_808, 11.514, TORCHVISION),
    "resnext50_32x4d": Published(25_028_904, 4.230, TORCHVISION),
    "vgg11": Published(132_863_336, 7.609, TORCHVISION),
    "vgg13": Published(133_047_848, 11.308, TORCHVISION),
    "vgg16": Published(138_357_544, 15.470, TORCHVISION),
    "vgg19": Published(143_667_240, 19.632, TORCHVISION),
    "densenet121": Published(7_978_856, 2.834, TORCHVISION),
    "densenet161": Published(28_681_000, 7.728, TORCHVISION),
    "densenet169": Published(14_149_480, 3.360, TORCHVISION),
    "densenet201": Published(20_013_928, 4.291, TORCHVISION),
    "inception_v3": Published(23_834_568, 5.713, TORCHVISION_LESS),
    "googlenet": Published(6_624_904, 1.498, TORCHVISION),
    "alexnet": Published(61_100_840, 0.714, TORCHVISION),
    "squeezenet1_0": Published(1_248_424, 0.819, TORCHVISION),
    "squeezenet1_1": Published(1_235_496, 0.349, TORCHVISION),
    "mobilenet_v1": Published(4_231_976, 0.569, "Keras 3 and timm mobilenetv1_100; paper, table 4"),
    "mobilenet_v2": Published(3_504_872, 0.301, TORCHVISION),
    "mobilenet_v3_large": Published(5_483_032, 0.217, TORCHVISION),
    "mobilenet_v3_small": Published(2_542_856, 0.057, TORCHVISION, billions_within=0.01),
    "mnasnet1_0": Published(4_383_312, 0.314, TORCHVISION),
    "efficientnet_b0": Published(5_288_548, 0.386, TORCHVISION),
    "regnet_y_400mf": Published(4_344_144, 0.402, TORCHVISION),
    "shufflenet_v2_x1_0": Published(2_278_604, 0.145, TORCHVISION),
    # The paper's 8.30 million and 1.4 billion are those of the folded network.
    "repvgg_a0": Published(9_108_968, 1.513, "timm repvgg_a0; multiply-adds by hand"),
    # ResNet-18 and, for each of its 3x3 layers, two thirds of its weights and two batch norms more.
    "acnet_resnet18": Published(
        11_689_512 + 10_985_472 * 2 // 3 + 4 * 3840, 2.932, "by hand from ResNet-18"
    ),
    "convnext_tiny": Published(28_589_128, 4.456, TORCHVISION),
    "nasnet_a_mobile": Published(5_289_978, 0.564, "Cadene nasnetamobile; paper, table 3"),
    "nasnet_a_large": Published(88_753_150, 23.8, "timm nasnetalarge; paper, table 2"),
    "pnasnet5_mobile": Published(5.1e6, 0.588, "paper, table 5", 0.01),
    "pnasnet5_large": Published(
        86_057_668, 25.0, "timm pnasnet5large; paper, table 5", billions_within=0.005
    ),
    "randwire_small": Published(5.6e6, 0.583, "paper, table 2: means of five graphs", 0.02, 0.02),
    "unet": Published(31_037_698, 48.172, "milesial/Pytorch-UNet; multiply-adds by hand"),
    # torchvision's 42,004,074 and 178.722, less the auxiliary head's 2,365,205 and 9.991.
    "deeplabv3_resnet50": Published(39_638_869, 168.731, TORCHVISION_LESS),
    "ssd512_resnet50": Published(36_450_094, 23.540, "by hand"),
    # torchvision's fasterrcnn_resnet50_fpn: 41,755,286 parameters and 134.38 for 1000 proposals.
    "faster_rcnn_rpn": Published(
        41_755_286 + FROZEN - 14_362_055, 134.38 - 1000 * 0.01436, TORCHVISION
    ),
    "faster_rcnn_box_head": Published(14_362_055, 0.01436, TORCHVISION),
    # darknet counts a multiply-add as two: 62.94 at 608x608 are 29.46 at 416x416.
    "yolov2": Published(50_962_889, 29.464 / 2, "YAD2K; https://pjreddie.com/darknet/yolov2"),
    "tiny_yolov2": Published(15_861_773, 6.97 / 2, "YAD2K; https://pjreddie.com/darknet/yolov2"),
    "lenet": Published(61_706, 0.000417, "by hand"),
}
RUNNING_STATISTICS = ("running_mean", "running_var")


def test_every_network_has_a_line() -> None:
    assert set(names()) == set(PUBLISHED)
    assert all(published.source for published in PUBLISHED.values())


@cache
def inferred(name: str) -> onnx.GraphProto:
    """The sketch's graph with the shape of every value."""
    model = find(name).sketch()
    return onnx.shape_inference.infer_shapes(model, strict_mode=True, data_prop=True).graph


@pytest.mark.parametrize("name", names())
def test_size_is_the_published_one(name: str) -> None:
    published, graph = PUBLISHED[name], inferred(name)
    weights = [w for w in graph.initializer if not w.name.endswith(RUNNING_STATISTICS)]
    parameters = sum(math.prod(weight.dims) for weight in weights)
    assert parameters == pytest.approx(published.parameters, rel=published.parameters_within)
    billions = _multiply_adds(graph) / 1e9
    assert billions == pytest.approx(published.billions, rel=published.billions_within)


@pytest.mark.parametrize("name", names())
def test_declares_what_onnx_infers(name: str) -> None:
    network, graph = find(name), inferred(name)
    (data,) = graph.input
    assert (data.name, _shape(data)) == ("data", network.input_shape())
    outputs = {value.name: _shape(value) for value in graph.output}
    assert outputs == network.output_shapes()
    if network.classes:
        assert outputs == {"output": (1, network.classes)}
    labels = [node.name for node in graph.node]
    assert "" not in labels
    assert len({*labels, *(w.name for w in graph.initializer)}) == len(labels) + len(
        graph.initializer
    )


def _multiply_adds(graph: onnx.GraphProto) -> int:
    """Of convolutions and matrix products: outputs times filter size."""
    values = (*graph.value_info, *graph.input, *graph.output)
    shapes = {value.name: _shape(value) for value in values}
    shapes |= {weight.name: tuple(weight.dims) for weight in graph.initializer}
    total = 0
    for node in graph.node:
        match node.op_type:
            case "Conv" | "Gemm":
                total += math.prod(shapes[node.output[0]]) * math.prod(shapes[node.input[1]][1:])
            case "ConvTranspose":
                total += math.prod(shapes[node.input[0]]) * math.prod(shapes[node.input[1]][1:])
            case "MatMul":
                total += math.prod(shapes[node.output[0]]) * shapes[node.input[1]][0]
    return total


def _shape(value: onnx.ValueInfoProto) -> tuple[int, ...]:
    return tuple(size.dim_value for size in value.type.tensor_type.shape.dim)
