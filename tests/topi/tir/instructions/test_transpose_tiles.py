"""How the tiles of a transpose are shared out in groups."""

from __future__ import annotations

import pytest

from tvm_neocpu.topi.tir.instructions.transpose_tiles import _shared


@pytest.mark.parametrize("extent", [*range(4, 90), 15 * 256 + 3])
@pytest.mark.parametrize("wanted", [1, 2, 8, 16])
def test_no_two_groups_share_elements(extent: int, wanted: int) -> None:
    groups, in_group = _shared(extent, 4, wanted)
    starts = [
        [min(4 * tile, extent - 4) for tile in range(group * in_group, (group + 1) * in_group)]
        for group in range(groups)
    ]
    touched = [{start + at for start in group for at in range(4)} for group in starts]
    assert set().union(*touched) == set(range(extent))
    assert sum(map(len, touched)) == extent
