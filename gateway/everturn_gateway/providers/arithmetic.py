"""Arithmetic as people type it, exact, and never more work than a line of text is worth. Pure."""

from __future__ import annotations

import re
from decimal import Decimal
from fractions import Fraction
from typing import Final

EXPRESSION_LIMIT_CHARS = 200
NUMBER_LIMIT_BITS = 4096  # of numerator or denominator: some 1,200 digits
DEPTH_LIMIT = 50  # nested brackets and signs
SHOWN_DIGITS = 15  # of a number that is not whole

_SAME: Final = {
    "\N{MULTIPLICATION SIGN}": "*",
    "\N{MIDDLE DOT}": "*",
    "\N{DIVISION SIGN}": "/",
    "\N{MINUS SIGN}": "-",
    "^": "**",
}
_SIGNS: Final = re.escape("-+*/%" + "".join(_SAME))
_TOKEN: Final = re.compile(rf"\s*(?:(\d+(?:\.\d+)?|\.\d+)|(\*\*|[{_SIGNS}()]))", re.ASCII)
_OPERATOR: Final = re.compile(f"[{_SIGNS}]")


class ArithmeticTextError(ValueError):
    """The text cannot be worked out; says why, in words for the person who wrote it."""


def evaluate(text: str) -> Fraction:
    """Work out `text`: numbers, brackets, + - * / % and ** (or ^), with the usual precedence.

    Raises:
        ArithmeticTextError: It is no such expression, too large, or divides by zero.
    """
    if len(text) > EXPRESSION_LIMIT_CHARS:
        msg = f"the expression is longer than {EXPRESSION_LIMIT_CHARS} characters"
        raise ArithmeticTextError(msg)
    parser = _Parser(_tokens(text))
    value = parser.sum(0)
    if parser.position != len(parser.tokens):
        msg = f"I do not understand {parser.tokens[parser.position]!r} there"
        raise ArithmeticTextError(msg)
    return value


def has_operator(text: str) -> bool:
    """Whether `text` holds a sign of arithmetic."""
    return _OPERATOR.search(text) is not None


def shown(value: Fraction) -> str:
    """Return a number for people: whole, or as a decimal with up to 15 digits."""
    if value.denominator == 1:
        return str(value.numerator)
    number = Decimal(value.numerator) / Decimal(value.denominator)
    text = f"{number:.{SHOWN_DIGITS}g}"
    exact = Fraction(text) == value
    return text if exact else f"about {text}"


def _tokens(text: str) -> list[str]:
    tokens: list[str] = []
    position = 0
    text = text.rstrip()
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            msg = f"I do not understand {text[position:].strip()[:20]!r} there"
            raise ArithmeticTextError(msg)
        token = match.group(1) or match.group(2)
        tokens.append(_SAME.get(token, token))
        position = match.end()
    return tokens


class _Parser:
    def __init__(self, tokens: list[str]) -> None:
        self.tokens = tokens
        self.position = 0

    def sum(self, depth: int) -> Fraction:
        if depth > DEPTH_LIMIT:
            msg = "there are too many brackets"
            raise ArithmeticTextError(msg)
        value = self._product(depth)
        while sign := self._take("+", "-"):
            right = self._product(depth)
            value = _bounded(value + right if sign == "+" else value - right)
        return value

    def _product(self, depth: int) -> Fraction:
        value = self._signed(depth)
        while operator := self._take("*", "/", "%"):
            right = self._signed(depth)
            if operator == "*":
                value = _bounded(value * right)
                continue
            if right == 0:
                msg = "that divides by zero"
                raise ArithmeticTextError(msg)
            value = _bounded(value / right if operator == "/" else value % right)
        return value

    def _signed(self, depth: int) -> Fraction:
        negative = False
        while sign := self._take("+", "-"):
            negative ^= sign == "-"
        value = self._power(depth)
        return -value if negative else value

    def _power(self, depth: int) -> Fraction:
        base = self._atom(depth)
        if not self._take("**"):
            return base
        # The exponent binds to the right: 2 ** 3 ** 2 is 2 ** 9.
        exponent = self._signed(depth + 1)
        if exponent.denominator != 1:
            msg = "I can only raise to whole powers"
            raise ArithmeticTextError(msg)
        size_bits = max(base.numerator.bit_length(), base.denominator.bit_length())
        if size_bits > 1 and size_bits * abs(exponent.numerator) > NUMBER_LIMIT_BITS:
            raise _too_large()
        if base == 0 and exponent < 0:
            msg = "that divides by zero"
            raise ArithmeticTextError(msg)
        return _bounded(Fraction(base**exponent.numerator))

    def _atom(self, depth: int) -> Fraction:
        if self._take("("):
            value = self.sum(depth + 1)
            if not self._take(")"):
                msg = "a bracket is not closed"
                raise ArithmeticTextError(msg)
            return value
        if self.position == len(self.tokens):
            msg = "the expression ends too early"
            raise ArithmeticTextError(msg)
        token = self.tokens[self.position]
        if not (token[0].isdigit() or token[0] == "."):
            msg = f"I expected a number where {token!r} stands"
            raise ArithmeticTextError(msg)
        self.position += 1
        return Fraction(token)

    def _take(self, *wanted: str) -> str:
        if self.position < len(self.tokens) and self.tokens[self.position] in wanted:
            self.position += 1
            return self.tokens[self.position - 1]
        return ""


def _bounded(value: Fraction) -> Fraction:
    if max(value.numerator.bit_length(), value.denominator.bit_length()) > NUMBER_LIMIT_BITS:
        raise _too_large()
    return value


def _too_large() -> ArithmeticTextError:
    return ArithmeticTextError("the number gets too large for me")
