"""The built-in responder's arithmetic: exact where Python's own fractions are."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everturn_gateway.providers.arithmetic import ArithmeticTextError, evaluate, shown

numbers = st.integers(0, 999).map(str) | st.decimals(0, 99, places=2).map(str)


def grown(inner: st.SearchStrategy[tuple[str, str]]) -> st.SearchStrategy[tuple[str, str]]:
    """Return larger expressions: as typed, and for Python with exact numbers."""
    joined = st.tuples(inner, st.sampled_from(["+", "-", "*", "/", "%"]), inner).map(
        lambda x: (f"({x[0][0]} {x[1]} {x[2][0]})", f"({x[0][1]} {x[1]} {x[2][1]})")
    )
    signed = inner.map(lambda x: (f"-{x[0]}", f"(-{x[1]})"))
    power = st.tuples(inner, st.integers(0, 3)).map(
        lambda x: (f"({x[0][0]})^{x[1]}", f"(({x[0][1]})**{x[1]})")
    )
    return joined | signed | power


expressions = st.recursive(numbers.map(lambda n: (n, f"F('{n}')")), grown, max_leaves=6)


@given(expressions)
def test_a_sum_is_worked_out_exactly(expression: tuple[str, str]) -> None:
    """A responder that is wrong about sums is worse than one that does none."""
    typed, exact = expression
    try:
        wanted = eval(exact, {"F": Fraction})  # noqa: S307 - made above, of numbers and signs
    except ZeroDivisionError:
        wanted = None
    try:
        found = evaluate(typed)
    except ArithmeticTextError:
        found = None

    if found is not None:
        assert found == wanted
    else:
        assert wanted is None or len(typed) > 150 or wanted.numerator.bit_length() > 200


@given(st.text("0123456789+-*/%^(). ", max_size=60))
def test_nothing_typed_does_more_than_refuse(text: str) -> None:
    """No line of signs may crash the responder or keep it busy."""
    try:
        value = evaluate(text)
    except ArithmeticTextError:
        return

    assert shown(value)


@pytest.mark.parametrize(
    ("typed", "answer"),
    [
        ("2 + 2 * 10", "22"),
        ("2^3^2", "512"),
        ("-2^2", "-4"),
        ("0.1 + 0.2", "0.3"),
        ("1/3", "about 0.333333333333333"),
        ("7 % 4", "3"),
        ("2 × (3 − 1) ÷ 4", "1"),  # noqa: RUF001 - what phones type
        ("2 ** -2", "0.25"),
    ],
)
def test_what_people_type_is_understood(typed: str, answer: str) -> None:
    """The usual precedence, and an honest "about" where digits end."""
    assert shown(evaluate(typed)) == answer


@pytest.mark.parametrize(
    ("typed", "why"),
    [
        ("1/0", "divides by zero"),
        ("0 ^ -1", "divides by zero"),
        ("(1 + 2", "bracket"),
        ("1 +", "ends too early"),
        ("1 2", "do not understand"),
        ("9 ^ 9 ^ 9", "too large"),
        ("2 ^ 0.5", "whole powers"),
        ("((" * 40 + "1" + "))" * 40, "brackets"),
        ("1+" * 150 + "1", "longer than"),
    ],
)
def test_what_cannot_be_worked_out_says_why(typed: str, why: str) -> None:
    """A person can only correct what is named; and a huge power must not hang the gateway."""
    with pytest.raises(ArithmeticTextError, match=why):
        evaluate(typed)
