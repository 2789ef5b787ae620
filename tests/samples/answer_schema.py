"""JSON answers against their schema."""

from __future__ import annotations

from functools import cache
from typing import Any

from jsonschema import Draft202012Validator

from ocs_codesign.faces.answers.declared import answers_schema


@cache
def _validator(name: str) -> Draft202012Validator:
    return Draft202012Validator({**_parts(), "$ref": f"#/$defs/{name}"})


@cache
def _parts() -> dict[str, Any]:
    return {"$defs": answers_schema()["$defs"]}


def check_answer(answer: dict[str, Any]) -> None:
    """AssertionError unless an answer, and every one in it, is what its schema says."""
    wrong = [
        f"{answer['answer']}: {'.'.join(map(str, error.path))}: {error.message[:300]}"
        for error in _validator(answer["answer"].partition("/")[0]).iter_errors(answer)
    ]
    assert wrong == [], wrong
    for each in answer["answers"] if answer["answer"].startswith("sections.answers/") else ():
        check_answer(each)
