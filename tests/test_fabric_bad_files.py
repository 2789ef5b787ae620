"""Fabric files that are wrong: the error names the file, the line, the path in it and the rule."""

from __future__ import annotations

import pytest
from fabric_samples import INLINE, lab

from ocs_codesign.formats.fabric.fabric_files import load_fabric, parse_fabric

SWITCH = ("planes", 0, "switches", 0)

BAD = {
    "no name": (lab("name", drop=True), "name is missing"),
    "empty name": (lab("name", value=""), "name is empty"),
    "name of two lines": (lab("name", value="a\nb"), "name is 'a\\nb': it must be one line"),
    "a number as name": (lab("name", value=7), "name is 7: it must be text"),
    "unknown key": (lab("host", value=1), "host is no known key: did you mean hosts"),
    "unknown inner key": (
        lab(*SWITCH, "port", value=1),
        "planes[0].switches[0].port is no known key: did you mean ports",
    ),
    "unlike any key": (
        lab("losses", "zzz", value=1),
        "losses.zzz is no known key: known are connector_db, circulator_db, budget_db",
    ),
    "version": (lab("version", value=2), "version is 2: it must be 1"),
    "hosts as a number": (lab("hosts", value=8), "hosts is 8: it must be a map"),
    "no count": (lab("hosts", value={}), "hosts must have either count or names: neither"),
    "count and names": (lab("hosts", "names", value=["a"]), "hosts must have either"),
    "names with pattern": (
        lab("hosts", value={"names": ["a"], "first": 3}),
        "hosts must not have pattern or first",
    ),
    "true hosts": (lab("hosts", "count", value=True), "hosts.count is True: it must be a whole"),
    "text hosts": (lab("hosts", "count", value="8"), "hosts.count is '8': it must be a whole"),
    "half a host": (lab("hosts", "count", value=8.5), "hosts.count is 8.5: it must be a whole"),
    "no host": (lab("hosts", "count", value=0), "hosts.count is 0: it must be at least 1"),
    "too many hosts": (lab("hosts", "count", value=10**9), "hosts.count is 1000000000: it must"),
    "all hosts spare": (lab("hosts", "spares", value=8), "hosts.spares is 8: it must be from 0"),
    "hosts of one name": (lab("hosts", value={"names": ["a", "a"]}), "hosts has two of the name"),
    "a pattern without number": (lab("hosts", "pattern", value="h"), "hosts.pattern is 'h': it"),
    "a pattern that reaches in": (lab("hosts", "pattern", value="{0.__class__}"), "hosts.pattern"),
    "a wide pattern": (lab("hosts", "pattern", value="{:0999999999d}"), "hosts.pattern is '{:0"),
    "two numbers": (lab("hosts", "pattern", value="{}{}"), "hosts.pattern is '{}{}'"),
    "no planes": (lab("planes", value=[]), "planes has 0 entries: it needs at least 1"),
    "planes as a map": (lab("planes", value={}), "planes is {}: it must be a list"),
    "too many planes": (lab("planes", 0, "count", value=1024), "planes are 1025 with their counts"),
    "too many switches": (lab(*SWITCH, "count", value=20_000), "planes have 40001 switches"),
    "no switches": (lab("planes", 1, "switches", value=[]), "planes[1].switches has 0 entries"),
    "unknown profile": (
        lab(*SWITCH, "profile", value="polatis"),
        "planes[0].switches[0].profile: no switch profile is named 'polatis': did you mean "
        "polatis-384?",
    ),
    "a number as profile": (lab(*SWITCH, "profile", value=3), "switches[0].profile is 3: it must"),
    "no profile": (lab(*SWITCH, "profile", drop=True), "planes[0].switches[0].profile is missing"),
    "an inline profile's gap": (
        lab(*SWITCH, "profile", value={k: v for k, v in INLINE.items() if k != "delta"}),
        "planes[0].switches[0].profile.delta is missing",
    ),
    "an inline profile's gain": (
        lab(*SWITCH, "profile", value={**INLINE, "insertion_loss_db": -1}),
        "planes[0].switches[0].profile.insertion_loss_db is -1: it must be at least 0",
    ),
    "an inline profile's key": (
        lab(*SWITCH, "profile", value={**INLINE, "prices_usd": 1}),
        "planes[0].switches[0].profile.prices_usd is no known key: did you mean price_usd_per_port",
    ),
    "true loss": (
        lab(*SWITCH, "profile", value={**INLINE, "insertion_loss_db": True}),
        "profile.insertion_loss_db is True: it must be a number",
    ),
    "more ports than there are": (
        lab(*SWITCH, "ports", value=385),
        "planes[0].switches[0].ports is 385: polatis-384 has 384 ports a side",
    ),
    "no usable port": (lab(*SWITCH, "spares", value=8), "switches[0].spares is 8: it must be less"),
    "a port model": (lab(*SWITCH, "port_model", value="P5"), "port_model is 'P5': it is one of"),
    "an impossible use": (
        lab(*SWITCH, "port_model", value="matching"),
        "planes[0].switches[0].port_model is matching: polatis-384 is simplex and cannot",
    ),
    "two models in a plane": (
        lab(
            "planes", 0, "switches", value=[{"profile": "polatis-384"}, {"profile": "palomar-136"}]
        ),
        "planes[0].switches[1].port_model is two-sided, but the plane's first switch is simplex",
    ),
    "names of equal planes": (
        lab(*SWITCH, "names", value=["a"]),
        "planes[0].switches[0].names cannot be given where the plane's count is over 1",
    ),
    "names of too few": (
        lab("planes", 1, "switches", 0, "names", value=["a", "b"]),
        "planes[1].switches[0].names are 2, but count is 1",
    ),
    "a name twice": (
        lab("planes", 1, "switches", 0, "names", value=["p0-s0"]),
        "planes has two of the name 'p0-s0'",
    ),
    "no states": (
        lab("planes", 1, "switches", 0, "states", drop=True),
        "planes[1].switches[0].states are missing: a restricted switch",
    ),
    "states of a crossbar": (
        lab(*SWITCH, "states", value="rotations"),
        "planes[0].switches[0].states are given, but a simplex switch has none",
    ),
    "other states": (
        lab("planes", 1, "switches", 0, "states", value="rotation"),
        "planes[1].switches[0].states is 'rotation': write a table of ports, or rotations",
    ),
    "short states": (
        lab("planes", 1, "switches", 0, "states", value=[[0] * 8, [1]]),
        "planes[1].switches[0].states[1] has 1 entries, but 8 ports are in service",
    ),
    "true states": (
        lab("planes", 1, "switches", 0, "states", value=[[True] * 8]),
        "planes[1].switches[0].states must be a table of whole numbers",
    ),
    "states that join twice": (
        lab("planes", 1, "switches", 0, "states", value=[[5, 5, 0, 0, 0, 0, 0, 0]]),
        "planes[1].switches[0].states join B port 5 twice in state 0",
    ),
    "no rotation": (
        lab("planes", 1, "switches", 0, "spares", value=7),
        "planes[1].switches[0].states are rotations: 1 usable ports have no rotations",
    ),
    "alpha without unit": (lab("alpha", value=1e-5), "alpha is 1e-05: write a time as text"),
    "alpha in metres": (lab("alpha", value="10m"), "alpha: unknown unit 'm' in '10m'"),
    "an endless delta": (lab(*SWITCH, "delta", value="10000000s"), "switches[0].delta is 100000"),
    "no bandwidth": (
        lab("node_bandwidth", drop=True),
        "the fabric must have either node_bandwidth or port_bandwidth: neither is given",
    ),
    "two bandwidths": (lab("port_bandwidth", value="1Gbps"), "the fabric must have either"),
    "zero bandwidth": (lab("node_bandwidth", value="0Gbps"), "a bandwidth must be positive"),
    "bandwidth as number": (lab("node_bandwidth", value=4), "node_bandwidth is 4: write a band"),
    "a class of budget": (lab("losses", "budget_db", value="LR4"), "losses.budget_db is 'LR4'"),
    "true budget": (lab("losses", "budget_db", value=True), "losses.budget_db is True: it must be"),
    "no circulators": (
        lab(*SWITCH, "port_model", value="two-sided"),
        "losses.circulator_db is missing: circuits of a two-way plane have circulators",
    ),
    "a flag": (lab("reconfiguration", value={"overlap": 1}), "reconfiguration.overlap is 1: it mu"),
    "a list": (b"[1, 2]", "a fabric file holds a map of keys"),
    "nothing": (b"", "a fabric file holds a map of keys"),
}


@pytest.mark.parametrize("case", BAD)
@pytest.mark.parametrize("suffix", ["json", "yaml"])
def test_bad_files(case, suffix, tmp_path):
    data, sentence = BAD[case]
    path = tmp_path / f"bad.{suffix}"
    path.write_bytes(data or (b"null" if suffix == "json" else b""))
    with pytest.raises(ValueError, match="bad") as caught:
        load_fabric(path)
    text = str(caught.value)
    assert text.startswith(str(path))
    assert sentence in text
    assert text.count("\n") == 0
    assert len(text) < 600 + len(str(path))


LINES = """\
name: lab
hosts:
  names:
  - a
  - b

  - 3
planes:
- switches:
  - profile: polatis-384
    ports: 8
    # a comment
    delta: 3
  - {profile: polatis-384,
     spares: -1}
alpha: 1us
node_bandwidth: 1Gbps
losses: {connector_db: 0.25, budget_db: 3}
"""


@pytest.mark.parametrize(
    ("wrong", "right", "line", "path"),
    [
        ("- 3", "- c", 7, "hosts.names[2]"),
        ("delta: 3\n", "delta: 3us\n", 13, "planes[0].switches[0].delta"),
        ("spares: -1", "spares: 0", 15, "planes[0].switches[1].spares"),
    ],
)
def test_errors_name_the_line_of_yaml(wrong, right, line, path):
    text = LINES
    for one, other in (("- 3", "- c"), ("delta: 3\n", "delta: 3us\n"), ("-1", "0")):
        text = text if wrong.startswith(one) or wrong.endswith(one) else text.replace(one, other)
    assert wrong in text
    with pytest.raises(ValueError, match="bad") as caught:
        parse_fabric(text.encode(), "bad.yaml")
    assert str(caught.value).startswith(f"bad.yaml, line {line}: {path} is ")
    assert parse_fabric(text.replace(wrong, right).encode(), "good.yaml").hosts == ("a", "b", "c")


def test_errors_say_how_many_more_there_are():
    text = "name: lab\nhosts:\n  count: 8\n  spare: 1\nalpha: 3us\n"
    with pytest.raises(ValueError, match="bad") as caught:
        parse_fabric(text.encode(), "bad.yaml")
    assert str(caught.value) == (
        "bad.yaml, line 4: hosts.spare is no known key: did you mean spares? (and 2 more errors)"
    )
