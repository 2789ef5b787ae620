"""Settings of the whole suite: property tests draw the same examples every time."""

from __future__ import annotations

import json
import os
import re
import signal
import threading
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
import yaml
from answer_schema import check_answer
from hypothesis import HealthCheck, settings

from ocs_codesign.core.compute import kernels
from ocs_codesign.core.files import plain_text
from ocs_codesign.core.files.kept import CACHE
from ocs_codesign.faces.cli import commands, progress, workers
from ocs_codesign.faces.cli.output import Answer, json_bytes

collect_ignore = ["interop/infragraph_blueprints.py"]
"""What another interpreter runs."""

NUMBERS = count()
os.environ[CACHE] = ""

if threading.current_thread() is threading.main_thread():
    # A run in the background ignores Ctrl-C, and so would all that the tests start.
    signal.signal(signal.SIGINT, signal.default_int_handler)

for name, num_examples in (("suite", 50), ("thorough", 500)):
    settings.register_profile(
        name,
        deadline=None,
        max_examples=num_examples,
        derandomize=True,
        database=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
    )
settings.load_profile("suite")


SLOW = set((Path(__file__).parent / "slow.txt").read_text(encoding="utf-8").splitlines()[1:])
"""Tests, or functions of several, that are marked slow besides those that say so themselves."""
NO_TESTS = pytest.StashKey[set[str]]()
"""Those of them that are not there although every test was collected."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the tests of slow.txt."""
    unseen = set(SLOW)
    for item in items:
        names = {item.nodeid, item.nodeid.partition("[")[0]} & SLOW
        if names:
            item.add_marker(pytest.mark.slow)
            unseen -= names
    config.stash[NO_TESTS] = unseen if config.args == config.getini("testpaths") else set()


@pytest.fixture
def slow_without_test(pytestconfig: pytest.Config) -> set[str]:
    return pytestconfig.stash[NO_TESTS]


@pytest.fixture(autouse=True)
def _each_begins_anew(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Recipes and designs that a test keeps for later are not those of others, nor the user's;
    and little work in each of many tests is not much, for which loops would be compiled."""
    kernels._rounds_asked.clear()
    os.environ[CACHE] = str(tmp_path_factory.getbasetemp() / f"cache{next(NUMBERS)}")
    yield
    os.environ[CACHE] = ""


@pytest.fixture(scope="session", autouse=True)
def _no_words_of_patience() -> None:
    """What standard error says does not depend on how fast the machine is."""
    progress.SILENCE_S = 3600.0


@pytest.fixture
def other_words(monkeypatch: pytest.MonkeyPatch) -> None:
    """What libraries say is said in other words, as by another release of them."""

    def fields(text: str, *_: object) -> str:
        return "other words " + " ".join(re.findall(r"\{.*?\}", text))

    for module in ("exceptions", "types", "core", "parser"):
        monkeypatch.setattr(f"click.{module}._", fields, raising=False)
    yaml_error, json_error, sentence = (
        yaml.MarkedYAMLError.__init__,
        json.JSONDecodeError.__init__,
        plain_text._sentence,
    )
    monkeypatch.setattr(
        *(yaml.MarkedYAMLError, "__init__"),
        lambda self, _=None, there=None, __=None, here=None, *___: yaml_error(
            self, "other words", there, "other words", here
        ),
    )
    monkeypatch.setattr(
        *(json.JSONDecodeError, "__init__"),
        lambda self, _, *place: json_error(self, "Other words", *place),
    )
    monkeypatch.setattr(
        *(plain_text, "_sentence"),
        lambda place, error, keys: sentence(place, {**error, "msg": "other words"}, keys),
    )


@pytest.fixture(scope="session", autouse=True)
def _work_is_done_here_if_nobody_says() -> None:
    """Processes are started by the tests that ask for them by --workers."""
    workers.num_cores = lambda: 1


@pytest.fixture(scope="session", autouse=True)
def _answers_are_as_declared() -> None:
    """Whatever a command answers in any test is as its schema says."""
    publish = commands.publish

    def checked(answer: Answer) -> int:
        content = json_bytes(answer.json)
        if len(content) < LARGEST_CHECKED:
            check_answer(json.loads(content))
        return publish(answer)

    commands.publish = checked


LARGEST_CHECKED = 100_000


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Say how to run the same order again, also where headers are hidden."""
    seed = config.getoption("randomly_seed", None)
    order = "as collected" if seed is None else f"--randomly-seed={seed}"
    terminalreporter.write_line(f"Order: {order}")
