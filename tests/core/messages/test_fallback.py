"""What a build says of operations that no template takes: one line, once."""

from __future__ import annotations

import warnings

import pytest

from tvm_neocpu.core.errors import FallbackError, NeoCpuError
from tvm_neocpu.core.messages.fallback import (
    Coverage,
    Fallback,
    FallbackWarning,
    Fixed,
    percent,
    tell,
)

CONV = Fallback("conv1d", "1x3x64, 8x3x5 -> 1x8x60", "no template for this operator", 300)
PRODUCT = Fallback("matmul", "nx4, 4x4 -> nx4", "its shape is not known at compile time")


def test_one_warning_lists_all_with_their_reasons_and_share() -> None:
    with pytest.warns(FallbackWarning) as caught:
        tell(Coverage(100, (CONV, CONV, CONV)), "warn")
    (warning,) = caught
    assert str(warning.message) == (
        "no template takes 3 operations of this network, 90.0% of its multiply-adds; TVM's own "
        "code computes them and may be many times slower: 3 x conv1d 1x3x64, 8x3x5 -> 1x8x60 "
        "(no template for this operator)"
    )


def test_an_error_says_the_same() -> None:
    coverage = Coverage(100, (CONV, PRODUCT))
    with pytest.raises(FallbackError) as caught:
        tell(coverage, "error")
    assert str(caught.value) == coverage.report()
    assert isinstance(caught.value, NeoCpuError)


@pytest.mark.parametrize("choice", ["warn", "error", "ignore"])
def test_nothing_is_said_where_nothing_falls_back(choice) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tell(Coverage(100), choice)
        tell(Coverage(0), choice)


def test_ignored_is_ignored() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tell(Coverage(0, (CONV,)), "ignore")


def test_an_unknown_word_is_refused() -> None:
    with pytest.raises(NeoCpuError, match="fallback is one of warn, error, ignore, not 'raise'"):
        tell(Coverage(100), "raise")  # type: ignore[arg-type]


def test_an_unknown_count_makes_the_share_unknown() -> None:
    coverage = Coverage(100, (CONV, PRODUCT))
    assert coverage.share is None
    assert "2 operations of this network, an unknown share of its" in coverage.report()


def test_a_network_without_products_has_no_share() -> None:
    assert Coverage(0).share is None
    assert Coverage(7).share == 1
    assert Coverage(0, (CONV,)).share == 0


def test_a_long_list_is_cut() -> None:
    many = tuple(Fallback("matmul", f"{size}x4, 4x4", "why", 1) for size in range(20))
    report = Coverage(0, many).report()
    assert "\n" not in report
    assert report.endswith("11x4, 4x4 (why); and 8 more")


@pytest.mark.parametrize(
    ("share", "text"),
    [(0, "0.0%"), (1e-6, "under 0.1%"), (0.125, "12.5%"), (1 - 1e-6, "over 99.9%"), (1, "100.0%")],
)
def test_a_part_is_neither_nothing_nor_everything(share: float, text: str) -> None:
    assert percent(share) == text


def test_what_one_function_of_ours_computes_is_covered() -> None:
    fixed = (Fixed("GRU", "3 steps", "recurrence", 40, 0.5), Fixed("GRU", "", "", 10, 0.25))
    coverage = Coverage(0, (CONV,), fixed)
    assert coverage.share == pytest.approx(50 / (50 + (CONV.flops or 0)))
    assert (coverage.fixed_seconds, coverage.fixed_kinds) == (0.75, "2 GRU")
    assert Coverage(100).fixed_kinds == ""
    assert Coverage(0, (), fixed).share == 1
