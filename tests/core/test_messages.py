"""Messages stay short, whatever they quote."""

import pytest

from ndp.core.messages import LONGEST, did_you_mean, first_line, short


def test_only_the_first_line_of_another_error_is_quoted() -> None:
    assert first_line(ValueError("\nsizes differ: 3\n  and 4")) == "sizes differ: 3"
    assert len(first_line("x" * 10_000)) == LONGEST + len("...")


@pytest.mark.parametrize("value", ["x" * 10_000, list(range(10_000)), {str(n): n for n in range(100)}, 10**4000])
def test_a_value_is_quoted_in_a_few_characters(value: object) -> None:
    assert len(short(value)) < 100
    assert "..." in short(value)


def test_a_close_name_is_suggested_and_a_distant_one_is_not() -> None:
    assert did_you_mean("univeral", ["se", "universal"]) == "did you mean universal? "
    assert did_you_mean("boat", ["se", "universal"]) == ""
