"""What the model layer found wrong, in our own words: a rule that says what to send.

Owns the one table from its kinds of error to sentences. Refuses to pass its wording on: that changes with its
version, and speaks of inputs and strings to people who sent a count or a name.
"""

from collections.abc import Callable, Mapping
from typing import Any

Facts = Mapping[str, Any]


def rule_of(error: Mapping[str, Any]) -> str:
    kind, facts = str(error.get("type", "")), error.get("ctx") or {}
    if kind == "value_error":
        # One of our own models says what is wrong.
        return _begun_small(str(error.get("msg", "")).removeprefix("Value error, "))
    for start, words in _WORDS:
        if kind.startswith(start):
            return words(facts)
    return "is not what is expected here; see /openapi.json for what is"


def _begun_small(text: str) -> str:
    return text[:1].lower() + text[1:]


def _one_of(facts: Facts) -> str:
    """`'a', 'b' or 'c'` is how it lists them."""
    names = str(facts.get("expected", "")).replace(" or ", ", ").replace("'", "")
    return f"must be one of {names}"


def _plain(words: str) -> Callable[[Facts], str]:
    return lambda _facts: words


def _bound(words: str, name: str) -> Callable[[Facts], str]:
    return lambda facts: f"must be {words} {facts.get(name)}"


def _length(words: str, name: str, what: str) -> Callable[[Facts], str]:
    return lambda facts: f"must have {words} {facts.get(name)} {what}"


_WORDS: tuple[tuple[str, Callable[[Facts], str]], ...] = (
    ("missing", _plain("it is missing")),
    ("extra_forbidden", _plain("there is no such field; check its spelling")),
    ("bool", _plain("must be true or false")),
    ("int_parsing_size", _plain("must be a whole number with fewer digits")),
    ("int", _plain("must be a whole number, not text or a fraction")),
    ("float", _plain("must be a number")),
    ("finite_number", _plain("must be a finite number")),
    ("greater_than_equal", _bound("at least", "ge")),
    ("greater_than", _bound("above", "gt")),
    ("less_than_equal", _bound("at most", "le")),
    ("less_than", _bound("below", "lt")),
    ("string_too_long", _length("at most", "max_length", "characters")),
    ("string_too_short", _length("at least", "min_length", "characters")),
    ("string", _plain("must be text")),
    ("too_long", _length("at most", "max_length", "items")),
    ("too_short", _length("at least", "min_length", "items")),
    ("list", _plain("must be a list")),
    ("enum", _one_of),
    ("literal_error", _one_of),
    ("none_required", _plain("must be left out, or null")),
    ("dict", _plain("must be a JSON object")),
    ("model", _plain("must be a JSON object")),
)
"""The first start that fits counts, so the special ones come before the general ones."""
