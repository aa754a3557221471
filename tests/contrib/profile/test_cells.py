"""The cells of a profile's tables."""

from __future__ import annotations

from tvm_neocpu.contrib.kernels.ceilings import Ceilings
from tvm_neocpu.contrib.profile import cells
from tvm_neocpu.contrib.profile.profile_network import Profile, ProfileRow
from tvm_neocpu.contrib.profile.watch_calls import Call

AT = (*cells.TEXTS, *cells.NUMBERS).index("of peak")


def test_a_layer_is_judged_by_the_peak_of_its_own_types() -> None:
    """The machine's peak in another type is no bound of it: int8 beside fp32."""
    call = Call("conv", 0.0, 1e-3, 1 << 20)
    fp32 = ProfileRow(call, "conv", "direct", "", "", 50_000_000, peak=100.0)
    group = ProfileRow(call, "pool", "TVM's own", "", "", 0)
    profile = Profile("net", "znver4", 1, Ceilings(400.0, 20.0), (fp32, group), 2e-3)
    assert cells.of_row(fp32, profile)[AT] == "50%"
    assert cells.of_row(group, profile)[AT] == ""
