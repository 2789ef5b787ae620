"""Answers declared once: a declaration makes the JSON of a value, its schema and its tables.

``records.txt`` has the words of every value that answers speak of, in their order and where each
is found; ``words.txt`` what a word is, the same wherever it stands: kind, unit, meaning. What is no
attribute of a value, functions make that its module tells by ``made``.

>>> from fractions import Fraction
>>> from ocs_codesign.core.cost import Cost
>>> records()["cost"].json(Cost(2, Fraction(3)))
{'steps': 2, 't_b': '3'}
>>> records()["cost"].schema()["properties"]["steps"]
{'type': 'integer', 'description': 'Steps of a schedule, T_L over alpha.'}
"""

from __future__ import annotations

from enum import Enum
from functools import cache
from importlib import import_module
from importlib.resources import files
from typing import TYPE_CHECKING, Any, NamedTuple, final

from ocs_codesign.core.quantities import format_bandwidth, format_size, format_time
from ocs_codesign.faces.answers.sections import Table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping


VERSION = 1
"""That of the shapes of all answers; a word that goes or changes its kind raises it."""

SCHEMA_FILE = "answers.schema.json"
_DRAFT = "https://json-schema.org/draft/2020-12/schema"
_TYPES = {
    "int": {"type": "integer"},
    "number": {"type": "number"},
    "exact": {"type": "string", "pattern": r"^-?\d+(/\d+)?$"},
    "text": {"type": "string"},
    "bool": {"type": "boolean"},
    "any": {},
}
_VARARGS = 0x04
"""The flag of code that takes any number of values."""

_OF_KIND = {"float": "number", "len": "int"}
"""Kinds that say how a value becomes one of those."""


class Word(NamedTuple):
    """What a word of JSON is: its kind, its unit (empty where it has none) and its meaning."""

    kind: str
    unit: str
    meaning: str


def lines_of(name: str) -> list[str]:
    """Those of a table beside this file, without what begins with #."""
    lines = files(__package__).joinpath(name).read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line and not line.startswith("#")]


@cache
def words() -> dict[str, Word]:
    """All words, those that mean something else in one record as ``record:word``."""
    found = {}
    for line in lines_of("words.txt"):
        name, kind, unit, meaning = line.split(maxsplit=3)
        found[name] = Word(kind, "" if unit == "-" else unit, meaning)
    return found


@cache
def records() -> dict[str, Record]:
    """All records, those that are whole answers with the name of their module before a dot.

    After == is the module whose functions make what is no attribute. A record begins with its name
    in brackets and the names of the values that follow its own (in a record within another that is
    the value of the other, then what follows that); then comes a line on what it is, which for an
    answer begins with its commands, then, indented, its words.
    """
    found, module = {}, ""
    for line in lines_of("records.txt"):
        if line.startswith("=="):
            module = line.strip("= ")
        elif line.startswith("["):
            name, _, beside = line[1:].partition("]")
            found[name] = record = Record(name, module, tuple(beside.split()))
        else:
            record.add(line)
    return found


_MADE: dict[str, dict[str, Any]] = {}


def made(name: str, /, **values: Any) -> None:
    """Tell what words of a record are that are no attributes: functions of values, or constants."""
    _MADE[name] = values


def _at(value: Any, path: str) -> Any:
    """What is found at a path of attributes or keys; None behind None, and what methods return."""
    for name in path.split(".") if path else ():
        if value is None:
            return None
        if isinstance(value, (list, tuple)) and not hasattr(value, name):
            return [_at(item, path[path.index(name) :]) for item in value]
        value = value.get(name) if isinstance(value, dict) else getattr(value, name)
        if callable(value):
            value = value()
    return value


@final
class Field:
    """One word of a record: ``name[?][=path][:kind]``, or ``*record[=path]`` for all of another's.

    ``+record`` are words that who answers may add, a path after a quotation mark is a text with _
    for blanks.

    With ? it is left out where it is None. Its value is what was ``made`` of as many of the values
    as that takes, else what is at the path: attributes of the first value, or of one of those
    beside it if the path begins with its name; ``self`` is the first value.
    """

    __slots__ = ("is_added", "is_optional", "is_spliced", "kind_here", "name", "path")

    def __init__(self, declared: str) -> None:
        place, _, self.kind_here = declared.partition(":")
        name, _, path = place.partition("=")
        self.is_spliced, self.is_optional = name[0] in "*+", name.endswith("?")
        self.is_added = name.startswith("+")
        self.name = name.strip("*+?")
        self.path = path or ("" if self.is_spliced else self.name)


@final
class Record:
    """The words that JSON has of a value, in their order."""

    def __init__(self, name: str, module: str, beside: tuple[str, ...]) -> None:
        self.name, self.module, self.beside = name, module, beside
        self.meaning = ""
        self.fields: list[Field] = []

    def add(self, line: str) -> None:
        """Add a line of its declaration."""
        if line.startswith(" "):
            self.fields += map(Field, line.split())
        else:
            self.meaning = line

    def json(self, *values: Any) -> dict[str, Any]:
        """What JSON has of the first value.

        Functions of words get what stands beside it too, and those of records in it their own value
        and then all of these.
        """
        found: dict[str, Any] = {}
        import_module(f"{__package__}.{self.module}")
        makes = _MADE.get(self.name, {})
        for field in self.fields:
            if field.is_added:
                continue
            if field.is_spliced and not field.path and field.name not in makes:
                found |= records()[field.name].json(*values)
                continue
            value = self._value(field, makes, values)
            if field.is_spliced:
                found |= {} if value is None else _nested(field.name, value, values)
            elif value is not None or not field.is_optional:
                found[field.name] = _converted(value, self.kind(field), values)
        return found

    def _value(self, field: Field, makes: dict[str, Any], values: tuple[Any, ...]) -> Any:
        if field.name in makes:
            make = makes[field.name]
            return make(*values[: _num_taken(make)]) if callable(make) else make
        if field.path.startswith("'"):
            return field.path[1:].replace("_", " ")
        if field.path == "self":
            return values[0]
        first, _, rest = field.path.partition(".")
        if first in self.beside:
            place = self.beside.index(first) + 1
            return _at(values[place], rest) if place < len(values) else None
        return _at(values[0], field.path)

    def kind(self, field: Field) -> str:
        """The kind of one of its fields, which may be None if it ends in ?."""
        here = field.kind_here
        return self.word(field).kind + here if here in ("", "?") else here

    def word(self, field: Field) -> Word:
        """What one of its fields means."""
        known = words()
        return known.get(f"{self.name}:{field.name}") or known[field.name]

    def flat(self) -> list[tuple[Record, Field, bool]]:
        """All fields, those of others that it has included; whose they are, whether always."""
        found = []
        for field in self.fields:
            if field.is_spliced:
                always = not (field.is_optional or field.is_added)
                inner = records()[field.name].flat()
                found += [(owner, each, must and always) for owner, each, must in inner]
            else:
                found.append((self, field, not field.is_optional))
        return found

    def schema(self) -> dict[str, Any]:
        """The JSON Schema of it."""
        properties, required = {}, []
        for owner, field, always in self.flat():
            word = owner.word(field)
            told = word.meaning + (f" Unit: {word.unit}." if word.unit else "")
            properties[field.name] = {**_kind_schema(owner.kind(field)), "description": told}
            if always:
                required.append(field.name)
        return {
            "description": self.meaning,
            "type": "object",
            "properties": properties,
            "required": list(dict.fromkeys(required)),
            "additionalProperties": False,
        }


def _num_taken(function: Callable[..., Any]) -> int | None:
    """How many values a function takes; None for any number."""
    code = getattr(function, "__code__", None)
    if code is None:
        return 1
    return None if code.co_flags & _VARARGS else code.co_argcount


def _converted(value: Any, kind: str, values: tuple[Any, ...]) -> Any:
    """A value as JSON has it, of a kind; exact numbers are texts."""
    if value is None:
        return None
    if kind.endswith("?"):
        return _converted(value, kind[:-1], values)
    if kind.endswith("[]"):
        items = value.tolist() if hasattr(value, "tolist") else value
        return [_converted(item, kind[:-2], values) for item in items]
    if kind.endswith("{}"):
        return {name: _converted(item, kind[:-2], values) for name, item in value.items()}
    if kind in _PLAIN:
        return _PLAIN[kind](value)
    return _nested(kind, value, values)


def _nested(name: str, value: Any, values: tuple[Any, ...]) -> dict[str, Any]:
    """What a record makes of a value and what it is of; what is a dict is JSON already."""
    return value if isinstance(value, dict) else records()[name].json(value, *values)


def _text(value: Any) -> str:
    return (
        value if isinstance(value, str) else str(value.value if isinstance(value, Enum) else value)
    )


_PLAIN: dict[str, Callable[[Any], Any]] = {
    "int": int,
    "number": lambda value: value.item() if hasattr(value, "item") else value,
    "float": float,
    "exact": str,
    "text": _text,
    "bool": bool,
    "len": len,
    "any": lambda value: value,
}


def _kind_schema(kind: str) -> dict[str, Any]:
    """The JSON Schema of a kind."""
    if kind.endswith("?"):
        of = _kind_schema(kind[:-1])
        return {**of, "type": [of["type"], "null"]} if "type" in of else _or_null(of)
    if kind.endswith("[]"):
        return {"type": "array", "items": _kind_schema(kind[:-2])}
    if kind.endswith("{}"):
        return {"type": "object", "additionalProperties": _kind_schema(kind[:-2])}
    if "|" in kind:
        return {"anyOf": [_kind_schema(each) for each in kind.split("|")]}
    plain = _TYPES.get(_OF_KIND.get(kind, kind))
    return {"$ref": f"#/$defs/{kind}"} if plain is None else dict(plain)


def _or_null(schema: dict[str, Any]) -> dict[str, Any]:
    return {"anyOf": [schema, {"type": "null"}]} if schema else schema


def answers_schema() -> dict[str, Any]:
    """The JSON Schema of what any command writes with --json: ``answer`` tells which it is."""
    parts = {name: each.schema() for name, each in records().items()}
    every = [name for name in parts if "." in name]
    for name in every:
        schema = parts[name]
        told = {"answer": {"const": versioned(name), "description": words()["answer"].meaning}}
        read = {**_kind_schema("read[]"), "description": words()["read"].meaning}
        schema["properties"] = {**told, **schema["properties"], "read": read}
        schema["required"] = [*told, *schema["required"]]
    listed = [{"$ref": f"#/$defs/{name}"} for name in every]
    return {"$schema": _DRAFT, "title": "Answers of ocs-codesign", "anyOf": listed, "$defs": parts}


def answer_json(name: str, *values: Any) -> dict[str, Any]:
    """The JSON of the answer that a record of that name is."""
    return stamped(name, records()[name].json(*values))


def excluded(design: str, reason: str, sentence: str) -> dict[str, str]:
    """What rankings say of what they left out, whatever they rank."""
    return {"design": design, "reason": reason, "sentence": sentence}


def stamped(name: str, found: Mapping[str, Any]) -> dict[str, Any]:
    """The words of an answer after its name and version."""
    return {"answer": versioned(name), **found}


def versioned(name: str) -> str:
    """The name of an answer with the version of its shape, as JSON begins: ``cost.measured/1``."""
    return f"{name}/{VERSION}"


# Tables from columns that are declared in the same way.


_FORMATS: dict[str, Callable[[Any], str]] = {
    "": str,
    "time": lambda value: format_time(float(value)),
    "size": lambda value: format_size(float(value)),
    "rate": lambda value: format_bandwidth(float(value)),
    "count": lambda value: f"{value:,}",
    "yes": lambda value: "yes" if value else "no",
    "percent": lambda value: f"{100 * float(value):.1f} %",
    "len": lambda value: str(len(value)),
    "list": lambda value: ", ".join(map(str, value)),
}


def table(
    items: Iterable[Any],
    declared: str,
    *beside: Any,
    spread: Mapping[str, tuple[str, ...]] | None = None,
    cut: bool = False,
    **makes: Callable[..., Any],
) -> Table:
    """A table with a row an item: columns ``title[=path][:format]`` with ; between them.

    Those before | are flush right, those after || may fold. What is None is a dash; formats are
    those of Python, and time, size, rate, count, percent, yes, len and list. A column ``*title`` of
    ``spread`` is as many as it has there. What is no attribute ``makes`` gives, by titles with _
    for whatever is no letter.

    >>> table([3 + 4j], "real:.2f; imag=imag:time | both parts", both_parts=str).rows
    [('3.00', '4 s', '(3+4j)')]
    """
    spread = spread or {}
    blocks = [
        [each.strip() for each in block.split(";") if each.strip()]
        for block in declared.replace("||", "|\0").split("|")
    ]
    right, left, folding = blocks[0], [], []
    for block in blocks[1:]:
        if block and block[0].startswith("\0"):
            folding = [block[0][1:].strip(), *block[1:]]
        else:
            left = block
    columns = [_column(text, makes, spread) for text in (*right, *left, *folding)]
    titles = tuple(title for names, _, _ in columns for title in names)
    rows = [
        tuple(cell for names, value, form in columns for cell in _cells(value(item, *beside), form))
        for item in items
    ]
    numbers = sum(len(names) for names, _, _ in columns[: len(right)])
    return Table(titles, rows, numbers, texts=len(folding), cut=cut)


def _column(
    text: str, makes: Mapping[str, Callable[..., Any]], spread: Mapping[str, tuple[str, ...]]
) -> tuple[tuple[str, ...], Callable[..., Any], str]:
    place, _, form = text.partition(":")
    title, _, path = place.partition("=")
    is_spread, title = title.startswith("*"), title.strip("*")
    key = "".join(letter if letter.isalnum() else "_" for letter in title)
    make = makes.get(key) or (lambda item, *_: _at(item, path or title))
    taken = _num_taken(make)
    if is_spread:
        return spread[title], lambda *values: make(*values[:taken]), form
    return (title,), lambda *values: (make(*values[:taken]),), form


def _cells(values: Iterable[Any], form: str) -> Iterator[str]:
    for value in values:
        if value is None:
            yield "-"
        else:
            yield _FORMATS[form](value) if form in _FORMATS else format(float(value), form)
