"""This package."""

from __future__ import annotations

from typing import Any

import tvm
from numpy.typing import NDArray

from tvm_neocpu import relay
from tvm_neocpu.contrib.peers.runner import Network
from tvm_neocpu.executor import BuiltModule
from tvm_neocpu.version import __version__

VERSION = __version__


class OurRunner:
    """The network as built here, or one that was built already."""

    def __init__(self, network: Network, built: BuiltModule | None = None) -> None:
        if built is None:
            mod, params = relay.frontend.from_onnx(network.model, network.shapes)
            built = relay.build(mod, target=network.target, params=params)
        self._module = built["default"](tvm.cpu())
        self._module.set_input(**network.inputs)

    def run(self) -> None:
        self._module.run()

    def outputs(self) -> list[NDArray[Any]]:
        numbers = range(self._module.get_num_outputs())
        return [self._module.get_output(number).numpy() for number in numbers]
