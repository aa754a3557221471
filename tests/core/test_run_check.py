"""What a run checks, in the text of an error."""

from __future__ import annotations

from tvm_neocpu.core.run_check import check_name, failed_check


def _error(name: str, place: int, found: int, expected: int) -> str:
    return (
        f"Check failed: input_shape[i] == reg ({found} vs. {expected}) : ErrorContext(match_cast, "
        f"ty=R.Shape([1, 4, {name}]))  match_cast error,  shape[{place}] mismatch to specified"
    )


def test_the_node_and_the_extents_are_named() -> None:
    name = check_name('Add "/sum é"', ["1 < n", "n == 4"])
    line = failed_check(_error(name, 1, 3, 4))
    assert line is not None and 'Add "/sum é"' in line
    assert "needs n == 4, and found 3" in line


def test_of_a_condition_no_value_is_told() -> None:
    line = failed_check(_error(check_name("Slice", ["1 < n", "n == 4"]), 0, 0, 1))
    assert line is not None and line.endswith("needs 1 < n")


def test_other_errors_have_no_line() -> None:
    assert failed_check("out of memory") is None
    assert failed_check(_error("n", 0, 1, 2)) is None


def test_memory_that_is_not_there_is_told() -> None:
    line = failed_check("std::bad_alloc")
    assert line == "no memory for tensors of the extents that this run computes"
