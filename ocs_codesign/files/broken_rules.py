"""Broken rules of files: what a schema's models found wrong, as a sentence with line and path."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, TypeVar

from ocs_codesign.files.naming import shown
from ocs_codesign.files.plain_text import path_text

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from pydantic import BaseModel, ValidationError

    from ocs_codesign.files.plain_text import Place, PlainText

    Model = TypeVar("Model", bound=BaseModel)

_PATH = re.compile(r"[a-z_]+(\[\d+\])*(\.[a-z_]+(\[\d+\])*)*(?=[ :])")
_SENTENCES = {
    "missing": "is missing",
    "int_type": "is {input}: it must be a whole number",
    "int_from_float": "is {input}: it must be a whole number",
    "float_type": "is {input}: it must be a number",
    "finite_number": "is {input}: it must be finite",
    "string_type": "is {input}: it must be text, which in YAML may need quotes",
    "bool_type": "is {input}: it must be true or false",
    "list_type": "is {input}: it must be a list",
    "model_type": "is {input}: it must be a map of keys to values",
    "model_attributes_type": "is {input}: it must be a map of keys to values",
    "greater_than_equal": "is {input}: it must be at least {ge}",
    "less_than_equal": "is {input}: it must be at most {le}",
    "too_short": "has {actual_length} entries: it needs at least {min_length}",
    "too_long": "has more than {max_length} entries: no more are read",
    "string_too_short": "is empty: it needs a character",
    "string_too_long": "has more than {max_length} characters: no more are read",
    "string_pattern_mismatch": "is {input}: it must be one line of printable text",
    "literal_error": "is {input}: it must be {expected}",
}
"""Kinds of broken rules, as sentences that follow the path of the value."""


def checked_part(
    plain: PlainText,
    name: str,
    model: type[Model],
    keys_at: Callable[[Place], Sequence[str]],
    whole: str,
    *,
    tags: Collection[str] = (),
    keys: str,
) -> Model:
    """The content of a file called ``name`` as a model; ValueError with line, path and rule else.

    ``whole`` is what the file describes, ``keys`` are some that it must have.
    """
    from pydantic import ValidationError

    if not isinstance(plain.value, dict):
        raise ValueError(f"{name}: a {whole} file holds a map of keys to values, with {keys}")
    try:
        return model.model_validate(plain.value)
    except ValidationError as error:
        place, rule = _first_broken_rule(error, keys_at, tags)
        raise file_error(name, plain, place, rule, f"the {whole}") from None


def _first_broken_rule(
    error: ValidationError,
    keys_at: Callable[[Place], Sequence[str]],
    tags: Collection[str] = (),
) -> tuple[Place, str]:
    """Where the first error is, and what follows its path, with how many more there are.

    ``keys_at`` are the keys that the map at a place may have, ``tags`` are no part of a path.
    """
    first, *others = error.errors(include_url=False)
    more = f" (and {len(others)} more error{'s' * (len(others) > 1)})" if others else ""
    place = tuple(key for key in first["loc"] if key not in tags)
    return place, _sentence(place, first, keys_at) + more


def file_error(name: str, plain: PlainText, place: Place, rule: str, whole: str) -> ValueError:
    """The error of a file: its name, the line if known, the path (or ``whole``) and the rule."""
    line = plain.line(place)
    where = f"{name}:" if line is None else f"{name}, line {line}:"
    return ValueError(f"{where} {path_text(place) or whole}{rule}")


def spanning_error(
    name: str, plain: PlainText, error: ValueError, whole: str, parts: Sequence[str] = ()
) -> ValueError:
    """The error of a rule on several keys, at the place that its sentence begins with.

    That is a path from the top, or from one of the ``parts`` of the file; else it is the whole's.

    >>> from ocs_codesign.files.plain_text import read_plain_text
    >>> plain = read_plain_text(b"name: x\\nparallel:\\n  expert: 3\\n", "j.yaml", is_json=False)
    >>> spanning_error("j.yaml", plain, ValueError("expert is 3: odd"), "the job", ["parallel"])
    ValueError('j.yaml, line 3: parallel.expert is 3: odd')
    """
    text = str(error)
    told = _PATH.match(text)
    keys = [
        int(key) if key.isdigit() else key for key in re.findall(r"\w+", told[0] if told else "")
    ]
    for place in ((), *((part,) for part in parts)):
        if told and _is_there(plain.value, (*place, keys[0])):
            return file_error(name, plain, (*place, *keys), text[told.end() :], whole)
    return file_error(name, plain, (), f": {text}", whole)


def _is_there(value: Any, place: Place) -> bool:
    for key in place:
        if not isinstance(value, dict) or key not in value:
            return False
        value = value[key]
    return True


def _sentence(place: Place, error: Any, keys_at: Callable[[Place], Sequence[str]]) -> str:
    kind, context = error["type"], error.get("ctx", {})
    if kind == "extra_forbidden":
        return _unknown_key(place, keys_at(place[:-1]))
    if kind == "value_error":
        text = str(context["error"])
        return f" {text}" if text.startswith(("is ", "must ")) else f": {text}"
    sentence = _SENTENCES.get(kind)
    if sentence is None:
        return f" is {shown(error['input'])}: {error['msg'].lower()}"
    return " " + sentence.format(**{"input": shown(error["input"]), **context})


def _unknown_key(place: Place, known: Sequence[str]) -> str:
    from difflib import get_close_matches

    near = get_close_matches(str(place[-1])[:80], known, n=1, cutoff=0.5)
    return " is no known key: " + (
        f"did you mean {near[0]}?" if near else f"known are {', '.join(known)}"
    )
