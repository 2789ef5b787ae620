"""What the commands for exact schedules say, for the tests of them."""

from __future__ import annotations

import json

from ocs_codesign.faces.cli import main

KAUTZ = "Kautz(2, 1)"
LARGE = "GeneralizedKautz(3, 35)"


def answer(capsys, *arguments, code=0):
    """The JSON answer of a command that ends with this code."""
    assert main([*arguments, "--json", "-"]) == code
    return json.loads(capsys.readouterr().out)


def cost(capsys, *arguments, code=0):
    return answer(capsys, "cost", *arguments, "--exact", code=code)


def built(capsys, directory, *arguments, code=0):
    command = ["build", *arguments, "--scheduler", "exact", "--out", str(directory)]
    return answer(capsys, *command, code=code)


def points(found):
    return [(one["steps"], one["t_b"], one["optimal"]) for one in found["points"]]
