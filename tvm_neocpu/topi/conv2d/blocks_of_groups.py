"""Blocks of channels that are part of a group, or hold several whole groups."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Protocol

from tvm_neocpu.topi.conv2d.workload import ConvWorkload


class Blocks(Protocol):
    """What a config says of channels; ``ic_bn`` of 0 reads plain data."""

    @property
    def ic_bn(self) -> int: ...

    @property
    def oc_bn(self) -> int: ...


class BlocksOfGroups(ABC):
    """For geometries: what ``config.ic_bn`` and ``config.oc_bn`` mean for a group."""

    conv: ConvWorkload
    config: Blocks

    @property
    @abstractmethod
    def in_channels(self) -> int:
        """Input channels of a group, as the reduction sees them."""

    @property
    def ic_bn(self) -> int:
        """Input channels that are read together: a block, or a group's part of a wider one."""
        return min(self.config.ic_bn, self.in_channels) or self.in_channels

    @property
    def groups_read(self) -> int:
        """Groups of which a block of the input holds the channels; 1 where it is part of one."""
        return max(1, self.config.ic_bn // self.in_channels)

    @property
    def oc_bn(self) -> int:
        """Output channels that a register tile computes: a block, or a group's part of it."""
        return min(self.config.oc_bn, self.conv.out_channels // self.conv.groups)

    @property
    def groups_written(self) -> int:
        """Groups of which a block of the output holds the channels; 1 where it is part of one."""
        return self.config.oc_bn // self.oc_bn
