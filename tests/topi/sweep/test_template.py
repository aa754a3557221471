"""Nothing asks for a sweep's template."""

from __future__ import annotations

import pytest

from tvm_neocpu.core.errors import ConfigError
from tvm_neocpu.topi.sweep.template import compute, schedule


@pytest.mark.parametrize("step", [compute, schedule])
def test_it_is_refused_in_one_line(step) -> None:
    with pytest.raises(ConfigError, match="no template"):
        step(None, None, None)
