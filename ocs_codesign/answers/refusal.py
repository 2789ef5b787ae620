"""What cannot be done on a fabric, as an answer: which bound fails, and a sentence."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ocs_codesign.fabric.infeasible import InfeasibleError

_VERDICTS = {"fits": "It does not fit", "repaired": "It cannot be repaired"}


def refusal_json(error: InfeasibleError, verdict: str = "fits") -> dict[str, Any]:
    """The JSON form: the verdict that is false, the reason and the sentence."""
    return {verdict: False, "reason": error.reason.name.lower(), "sentence": str(error)}


def refusal_text(error: InfeasibleError, verdict: str = "fits") -> str:
    """The same as a line of text."""
    return f"{_VERDICTS[verdict]}: {error}."
