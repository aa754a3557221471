"""U-Net (Ronneberger et al. 2015), padded, with batch norm and transposed convolutions.

Built as the widely used https://github.com/milesial/Pytorch-UNet: 3 channels in, 2 classes out.
"""

from __future__ import annotations

from ..blocks import conv_norm
from ..builder import GraphBuilder, Tensor
from ..network import Network

WIDTHS = (64, 128, 256, 512, 1024)
CLASSES = 2


def _body(g: GraphBuilder, x: Tensor) -> Tensor:
    x = _double(g, x, "inc", WIDTHS[0])
    skips = []
    for number, width in enumerate(WIDTHS[1:], start=1):
        skips.append(x)
        x = _double(g, g.max_pool(x, f"down{number}.pool", 2, 2), f"down{number}", width)
    for number, skip in enumerate(reversed(skips), start=1):
        x = g.conv_transpose(x, f"up{number}.up", skip.channels, 2)
        x = _double(g, g.concat([skip, x], f"up{number}.concat"), f"up{number}", skip.channels)
    return g.conv(x, "outc", CLASSES, 1, bias=True)


def _double(g: GraphBuilder, x: Tensor, name: str, width: int) -> Tensor:
    return conv_norm(g, conv_norm(g, x, f"{name}.0", width, 3), f"{name}.1", width, 3)


UNET = Network(
    name="unet",
    description="U-Net, 2 classes (Ronneberger et al. 2015)",
    body=_body,
    image=(3, 256, 256),
    classes=None,
)
