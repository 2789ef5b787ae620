"""Plain data from YAML or JSON text: maps, lists and scalars, with the line of every value.

What makes YAML dangerous or surprising is refused: aliases, tags, merge keys, several documents,
deep nesting, keys given twice, and numbers that people read otherwise than YAML does.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias, TypeVar, final

from ocs_codesign.core.files.atomic import decoded
from ocs_codesign.core.quantities import whole as whole_number
from ocs_codesign.core.shown import shown

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from pydantic import BaseModel, ValidationError

    Model = TypeVar("Model", bound=BaseModel)


Place: TypeAlias = tuple[str | int, ...]
"""Keys and positions that lead to a value."""

MAX_DEPTH = 16
MAX_VALUES = 2_000_000

NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
"""How numbers are written, in JSON and here in YAML too."""

_MAX_DIGITS = 40
_AHEAD = 99  # characters: more than the levels that are read, fewer than a scanner counts
_UNPRINTABLE = re.compile("[^\t\n\r -~\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_CORE = "tag:yaml.org,2002:"


@final
@dataclass(frozen=True, slots=True)
class PlainText:
    """The value of a text and, where they are known, the lines (from 1) of what is in it."""

    value: Any
    lines: Mapping[Place, int]

    def line(self, place: Place) -> int | None:
        """The line of the value there, or of the nearest one around it."""
        for end in range(len(place), -1, -1):
            if place[:end] in self.lines:
                return self.lines[place[:end]]
        return None


@final
class _LineError(ValueError):
    """What is wrong, with the line if it is known."""

    def __init__(self, line: int | None, rule: str) -> None:
        super().__init__(rule)
        self.line = line


def path_text(place: Place) -> str:
    """A place as people write it.

    >>> path_text(("planes", 2, "switches", 0, "profile"))
    'planes[2].switches[0].profile'
    """
    parts = [f"[{key}]" if isinstance(key, int) else f".{key}" for key in place]
    return "".join(parts).removeprefix(".")


def read_plain_text(data: bytes, name: str, *, is_json: bool) -> PlainText:
    """The data in a JSON or YAML text; ValueError with the file, the line and the rule if none."""
    text = decoded(data, name)
    try:
        return _read_json(text) if is_json else _read_yaml(text)
    except _LineError as error:
        line = "" if error.line is None else f", line {error.line}"
        raise ValueError(f"{name}{line}: {error}") from None


def _read_json(text: str) -> PlainText:
    try:
        value = json.loads(
            text,
            parse_float=_number,
            parse_int=_number,
            parse_constant=_not_finite,
            object_pairs_hook=once_each,
        )
    except json.JSONDecodeError as error:
        rule = f"this is not JSON ({error.msg[:1].lower()}{error.msg[1:]})"
        raise _LineError(error.lineno, rule) from None
    except RecursionError:
        raise _LineError(None, f"more than {MAX_DEPTH} levels of nesting") from None
    _check_depth(value)
    return PlainText(value, {})


def once_each(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object as json.loads hands it to a hook; ValueError for a key that is given twice."""
    value: dict[str, Any] = {}
    for key, part in pairs:
        if key in value:
            raise _LineError(None, f"the key {shown(key)} is given twice")
        value[key] = part
    return value


def _not_finite(text: str, line: int | None = None) -> NoReturn:
    raise _LineError(line, f"{text} is not a number: numbers are finite")


def _check_depth(value: Any) -> None:
    level = [value] if isinstance(value, (dict, list)) else []
    for _ in range(MAX_DEPTH):
        whole = [value.values() if isinstance(value, dict) else value for value in level]
        level = [part for parts in whole for part in parts if isinstance(part, (dict, list))]
        if not level:
            return
    raise _LineError(None, f"more than {MAX_DEPTH} levels of nesting")


def _read_yaml(text: str) -> PlainText:
    import yaml

    odd = _UNPRINTABLE.search(text)
    if odd is not None:
        rule = f"this is not YAML: {odd[0]!r} is no printable character"
        raise _LineError(len(text[: odd.end()].splitlines()), rule)
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    _check_events(text, loader)
    node = yaml.compose(text, Loader=loader)
    if node is None:
        return PlainText(None, {})
    lines: dict[Place, int] = {}
    return PlainText(_plain(node, node, (), lines, 0), lines)


def _check_events(text: str, loader: Any) -> None:
    """Refuse, before anything is built, what would be built large or by other code.

    Where a key may be, scanners are ahead of the events, and some count levels there: if there are
    many, what is judged ends before any of them gives up.
    """
    import yaml

    end = 0
    try:
        for event in _checked_events(yaml.parse(text, Loader=loader)):
            end = event.end_mark.index
    except yaml.YAMLError as error:
        ahead = text[end : end + _AHEAD]
        if end + _AHEAD < len(text) and ahead.count("[") + ahead.count("{") > MAX_DEPTH:
            _check_events(text[: end + _AHEAD], loader)
        rows = text.rstrip().splitlines() or [""]
        mark = getattr(error, "problem_mark", None)
        row = 0 if mark is None else min(mark.line, len(rows) - 1)
        raise _LineError(row + 1, f"this is not YAML, at {shown(rows[row])}") from None


def _checked_events(events: Any) -> Iterator[Any]:
    depth = documents = 0
    for values, event in enumerate(events):
        kind, line = type(event).__name__, event.start_mark.line + 1
        documents += kind == "DocumentStartEvent"
        if kind in ("SequenceStartEvent", "MappingStartEvent"):
            depth += 1
        elif kind in ("SequenceEndEvent", "MappingEndEvent"):
            depth -= 1
        if depth > MAX_DEPTH:
            raise _LineError(line, f"more than {MAX_DEPTH} levels of nesting")
        if values > MAX_VALUES:
            raise _LineError(line, f"more than {MAX_VALUES} values")
        if documents > 1:
            raise _LineError(line, "a second document begins: a file holds one")
        if getattr(event, "anchor", None) is not None:
            raise _LineError(
                line, f"anchors and aliases are not read ({event.anchor[:40]}): write it out"
            )
        if getattr(event, "tag", None) is not None:
            raise _LineError(line, f"tags are not read ({event.tag[:60]})")
        yield event


def _plain(node: Any, first: Any, place: Place, lines: dict[Place, int], around: int) -> Any:
    """The value of a node that begins with ``first``, its key or itself, at its place.

    ``lines`` gets the lines in it that are not that of the value around, as ``around`` is here.
    """
    line = first.start_mark.line + 1
    if line != around:
        lines[place] = line
    if node.id == "scalar":
        return _scalar(node, node.start_mark.line + 1)
    if node.id == "sequence":
        parts = enumerate(node.value)
        return [_plain(part, part, (*place, at), lines, line) for at, part in parts]
    value: dict[str, Any] = {}
    for key_node, part in node.value:
        here, key = key_node.start_mark.line + 1, key_node.value
        if key_node.id != "scalar" or key_node.tag == f"{_CORE}merge":
            raise _LineError(here, "a key must be a plain name")
        if key in value:
            raise _LineError(here, f"the key {shown(key)} is given twice")
        value[key] = _plain(part, key_node, (*place, key), lines, line)
    return value


def _scalar(node: Any, line: int) -> Any:
    text, kind = node.value, node.tag.removeprefix(_CORE)
    if node.style:  # in quotes, or a block of text
        return text
    if NUMBER.fullmatch(text):
        return _number(text, line)
    if kind == "float" and text.lstrip("+-").lower() in (".nan", ".inf"):
        _not_finite(text, line)
    if kind in ("int", "float"):
        raise _LineError(
            line, f"{shown(text)} is ambiguous: write a decimal number, or text in quotes"
        )
    if kind == "bool":
        return text.lower() in ("yes", "true", "on")
    return None if kind == "null" else text


def _number(text: str, line: int | None = None) -> int | float:
    match = NUMBER.fullmatch(text)
    if match is None or len(text) > _MAX_DIGITS:
        raise _LineError(line, f"{shown(text)}: numbers of at most {_MAX_DIGITS} digits are read")
    if match.group(1) is None and match.group(2) is None:
        return int(text)
    value = float(text)
    return value if math.isfinite(value) else _not_finite(text, line)


# Broken rules of files: what a schema's models found wrong, as a sentence with line and path.


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
    "greater_than": "is {input}: it must be more than {gt}",
    "less_than": "is {input}: it must be less than {lt}",
    "too_short": "has {actual_length} entries: it needs at least {min_length}",
    "too_long": "has more than {max_length} entries: no more are read",
    "string_too_short": "is empty: it needs a character",
    "string_too_long": "has more than {max_length} characters: no more are read",
    "string_pattern_mismatch": "is {input}: it must be one line of printable text",
    "literal_error": "is {input}: it must be {choices}",
    "union_tag_invalid": "is {input}: its {discriminator} must be {choices}",
    "union_tag_not_found": "is {input}: its {discriminator} is missing",
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
    error: ValidationError, keys_at: Callable[[Place], Sequence[str]], tags: Collection[str] = ()
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

    >>> from ocs_codesign.core.files.plain_text import read_plain_text
    >>> plain = read_plain_text(b"name: x\\nparallel:\\n  expert: 3\\n", "j.yaml", is_json=False)
    >>> spanning_error("j.yaml", plain, ValueError("expert is 3: odd"), "the job", ["parallel"])
    ValueError('j.yaml, line 3: parallel.expert is 3: odd')
    """
    text = str(error)
    told = _PATH.match(text)
    keys = [
        key if (number := whole_number(key)) is None else number
        for key in re.findall(r"\w+", told[0] if told else "")
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
    sentence = _SENTENCES.get(kind, f"is {{input}}: it breaks the rule {kind}")
    if kind == "string_pattern_mismatch" and r"\x7f" not in context["pattern"]:
        sentence = "is {input}: it must match {pattern}"
    listed = context.get("expected", context.get("expected_tags", ""))
    choices = " or ".join(re.findall(r"'[^']*'|\d+", listed))
    return " " + sentence.format(**{"input": shown(error["input"]), "choices": choices, **context})


def _unknown_key(place: Place, known: Sequence[str]) -> str:
    from difflib import get_close_matches

    near = get_close_matches(str(place[-1])[:80], known, n=1, cutoff=0.5)
    return " is no known key: " + (
        f"did you mean {near[0]}?" if near else f"known are {', '.join(known)}"
    )
