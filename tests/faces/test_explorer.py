"""The explorer's data and site: payloads say what the package computes, and files are whole."""

from __future__ import annotations

import base64
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import tomllib
import urllib.error
import urllib.parse
import urllib.request
import zipfile
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

import numpy as np
import pytest
from explorer_samples import QUESTIONS, served, small_catalogue, unpacked
from folders import ROOT

from ocs_codesign.core.bounds import least_t_b
from ocs_codesign.core.collective import GATHERING
from ocs_codesign.core.topology import Topology
from ocs_codesign.faces.cli import main
from ocs_codesign.faces.web import serve
from ocs_codesign.faces.web.exchanges import exchanges_json
from ocs_codesign.faces.web.serve import server
from ocs_codesign.faces.web.site import (
    answered,
    graphs_json,
    payloads,
    script,
    static_files,
    write_site,
)
from ocs_codesign.graphs.text import parse
from ocs_codesign.schedules.design import Question, measure
from ocs_codesign.search.catalogue.entry import Provenance, as_entry, stored_frontier
from ocs_codesign.search.catalogue.store import Catalogue
from ocs_codesign.search.pareto import baseline_recipes, literature


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    with Catalogue(small_catalogue(tmp_path_factory.mktemp("catalogue"))) as opened:
        yield opened


@pytest.fixture(scope="module")
def made(store):
    return payloads(store, "mine.sqlite", store.questions(), 12)


def pages(made, question):
    """All that the payloads say of a question's designs."""
    kind = f"{question.degree}-{'bidirectional' if question.bidirectional else 'any'}"
    return next(
        page
        for name, value in made.items()
        if name.startswith(f"designs/{kind}/")
        for page in value()
        if page["nodes"] == question.num_nodes
    )


@pytest.mark.parametrize("question", QUESTIONS, ids=str)
def test_designs_are_those_of_the_catalogue(store, made, question):
    page, entries = pages(made, question), store.entries(question)
    columns = page["designs"]
    assert columns["recipe"] == [entry.recipe for entry in entries]
    for collective in GATHERING:
        costs = [(steps, Fraction(t_b)) for steps, t_b in columns[collective.name]]
        assert costs == [
            (entry.cost(collective).steps, entry.cost(collective).t_b) for entry in entries
        ]
        front = [entries[at] for at in page["frontier"][collective.name]]
        assert front == stored_frontier(entries, collective)


@pytest.mark.parametrize("question", QUESTIONS, ids=str)
def test_bounds_of_every_step_are_told(made, question):
    page = pages(made, question)
    for collective in GATHERING:
        told = page["bounds"][collective.name]
        for steps in range(3 * question.num_nodes):
            here = [t_b for first, t_b in told if first <= steps]
            least = least_t_b(
                question.num_nodes,
                question.degree,
                steps,
                collective,
                bidirectional=question.bidirectional,
            )
            assert (Fraction(here[-1]) if here else None) == least


def test_compared_designs_have_their_measured_costs(made):
    question = Question(16, 4)
    compared = pages(made, question)["compared"]
    with_recipe = {each["recipe"]: each for each in compared if each["recipe"]}
    expected = {*literature(16, 4), *baseline_recipes(question)}
    assert set(with_recipe) == {repr(recipe) for recipe in expected}
    for recipe, each in with_recipe.items():
        steps, t_b = each["costs"]["allreduce"]
        cost = measure(recipe, "allreduce").cost
        if each["known"] == "measured":
            assert (steps, Fraction(t_b)) == (cost.steps, cost.t_b)
        else:
            assert (cost.steps, cost.t_b) <= (steps, Fraction(t_b))
    closed = [each for each in compared if each["recipe"] is None]
    assert {"double binary tree", "fat tree (bound)"} <= {each["label"] for each in closed}


def test_published_graphs_without_a_formula_are_named_where_they_take_long(tmp_path):
    ring = as_entry(measure("UniRing(3, 513)", "allreduce"))
    with Catalogue(tmp_path / "own.sqlite", writable=True) as own:
        own.record(Question(513, 3), [ring], Provenance("test", "0", 1, 0.0))
        assert answered(own, Question(513, 3)).uncosted == ("Π(3,513)",)
    with Catalogue() as shipped:
        stored, round_ = (answered(shipped, Question(nodes, 3)) for nodes in (513, 640))
    assert stored.uncosted == round_.uncosted == ()
    assert "Π(3,513)" in [design.label for _, design in stored.compared]
    assert "Π(3,640)" in [design.label for _, design in round_.compared]


def decoded(graph):
    nodes, degree = graph["nodes"], graph["degree"]
    kind = "u1" if nodes <= 256 else "<u2"
    heads = np.frombuffer(base64.b64decode(graph["heads"]), dtype=kind)
    return sorted(zip(np.repeat(np.arange(nodes), degree).tolist(), heads.tolist(), strict=True))


@pytest.mark.parametrize("question", [q for q in QUESTIONS if q.num_nodes == 12], ids=str)
def test_an_alltoall_is_what_optimum_answers(store, made, question, tmp_path):
    place = f"{question.degree}-{'bidirectional' if question.bidirectional else 'any'}/12"
    entries, answers = store.entries(question), made[f"alltoall/{place}"]()
    assert len(answers) == len(entries)
    for entry, graph, found in zip(entries, made[f"graphs/{place}"](), answers, strict=True):
        assert entry.alltoall is None or Fraction(found["t_b"]) == entry.alltoall
        asked = ["optimum", entry.recipe, "-c", "alltoall", "--json", str(tmp_path / "one.json")]
        assert main([*asked, "-q"]) == 0
        answer = json.loads((tmp_path / "one.json").read_bytes())
        assert found["t_b"] == answer["t_b"]
        assert found["side"] == (answer["cut"] and answer["cut"]["side"])
        links = decoded(graph)
        leaving = [
            (int(each["tail"][1:]), int(each["head"][1:])) for each in answer["links_to_upgrade"]
        ]
        assert sorted(links[at] for at in found["leaving"]) == sorted(leaving)
        assert set(found["busiest"]) <= set(range(len(links)))
        assert len(found["busiest"]) > 0
        if found["side"] is not None:
            side = set(found["side"])
            out = [at for at, (tail, head) in enumerate(links) if tail in side and head not in side]
            assert found["leaving"] == out
            least = Fraction(len(side) * (12 - len(side)), len(out))
            assert least == Fraction(answer["U"])


def test_an_alltoall_of_a_large_program_is_left_out():
    made = exchanges_json(parse(each) for each in ("GeneralizedKautz(4, 61)", "BiRing(2, 29)"))
    assert made[0] is None
    assert made[1]["t_b"] == "210/29"


@pytest.mark.parametrize("question", [q for q in QUESTIONS if q.num_nodes <= 12], ids=str)
def test_graphs_have_the_links_of_their_recipes(store, made, question):
    kind = f"{question.degree}-{'bidirectional' if question.bidirectional else 'any'}"
    graphs = made[f"graphs/{kind}/{question.num_nodes}"]()
    for entry, graph in zip(store.entries(question), graphs, strict=True):
        topology = parse(entry.recipe).topology()
        links = sorted(zip(topology.tail.tolist(), topology.head.tolist(), strict=True))
        assert decoded(graph) == links
        if topology.symmetry is not None:
            orbits = np.frombuffer(base64.b64decode(graph["orbits"]), dtype="u1")
            assert orbits.tolist() == topology.symmetry.node_orbit.tolist()


def test_large_graphs_take_two_bytes_and_irregular_ones_are_left_out():
    large = parse("UniRing(2, 300)").topology()
    path = Topology(3, [0, 1, 1, 2], [1, 0, 2, 1])
    found = graphs_json([large, path])
    assert decoded(found[0]) == sorted(zip(large.tail.tolist(), large.head.tolist(), strict=True))
    assert found[1] is None


def test_graphs_are_told_up_to_the_size_that_was_asked_for(made):
    sizes = {int(name.rpartition("/")[2]) for name in made if name.startswith("graphs/")}
    assert sizes == {7, 8, 12}
    assert made["index"]()["graph_nodes"] == 12


def test_the_index_names_every_payload(store, made):
    index = made["index"]()
    named = {
        f"designs/{kind}/{chunk[0]}"
        for kind, each in index["kinds"].items()
        for chunk in each["chunks"]
    }
    assert named == {name for name in made if name.startswith("designs/")}
    assert index["num_designs"] == sum(len(store.entries(each)) for each in store.questions())


def test_scripts_hold_their_values(made):
    for name, value in made.items():
        assert unpacked(script(name, value())) == (name, value())


def files_of(directory):
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in directory.rglob("*")
        if path.is_file()
    }


def test_the_same_catalogue_gives_the_same_bytes(made, tmp_path):
    listing = write_site(tmp_path / "one", made)
    write_site(tmp_path / "two", made)
    written = files_of(tmp_path / "one")
    assert written == files_of(tmp_path / "two")
    assert set(written) == {"site.json", *listing["files"]}
    assert {place for place in written if not place.startswith("data/")} == {
        "site.json",
        *static_files(),
    }


def test_a_site_replaces_a_site_as_a_whole_or_not_at_all(made, tmp_path):
    place = tmp_path / "site"
    write_site(place, made)
    before = files_of(place)

    def fails():
        raise ValueError("no such thing")

    with pytest.raises(ValueError, match="no such thing"):
        write_site(place, {**made, "index": fails})
    assert files_of(place) == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["site"]
    write_site(place, {name: made[name] for name in made if not name.startswith("graphs/")})
    assert not (place / "data" / "graphs").exists()


@pytest.mark.parametrize("listing", [None, "{}", "[]", '{"format": "ocs-codesign explorer"}', "x"])
def test_a_foreign_directory_is_not_overwritten(made, tmp_path, listing):
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "thesis.tex").write_text("years of work", encoding="utf-8")
    if listing is not None:
        (tmp_path / "site" / "site.json").write_text(listing, encoding="utf-8")
    with pytest.raises(ValueError, match="only written to a new or empty directory"):
        write_site(tmp_path / "site", made)
    assert (tmp_path / "site" / "thesis.tex").read_text(encoding="utf-8") == "years of work"


def test_the_working_directory_is_not_replaced(made, tmp_path, monkeypatch):
    write_site(tmp_path / "site", made)
    monkeypatch.chdir(tmp_path / "site")
    with pytest.raises(ValueError, match="working directory"):
        write_site(tmp_path / "site", made)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "one of --out and --serve is needed"),
        (["--serve", "--out", "x"], "not both"),
        (["--out", "x", "--port", "8000"], "--port is for --serve"),
        (["--out", "x", "--nodes", "5000-6000"], "no designs of these sizes"),
        (
            ["--out", "x", "--catalogue", "nothing.sqlite"],
            "there is no catalogue at nothing.sqlite",
        ),
        (["--out", "x", "--degree", "four"], "not a range of whole numbers"),
    ],
)
def test_bad_input_is_one_sentence(arguments, says, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["explore", *arguments]) == 2
    error = capsys.readouterr().err
    assert says in error
    assert error.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_a_catalogue_of_ones_own_is_written(store, capsys, tmp_path):
    place = tmp_path / "site"
    command = ["explore", "--catalogue", str(store.path), "--degree", "4", "--out", str(place)]
    assert main([*command, "--json", "-"]) == 0
    told = json.loads(capsys.readouterr().out)
    written = files_of(place)
    assert told["num_bytes"] == sum(map(len, written.values())) - len(written["site.json"])
    assert told["page"] == str(place / "index.html")
    index = unpacked(written["data/index.js"])[1]
    assert index["catalogue"] == "mine.sqlite"
    assert set(index["kinds"]) == {"4-any", "4-bidirectional"}


def get(address, host=None):
    request = urllib.request.Request(address, headers={} if host is None else {"Host": host})
    with urllib.request.urlopen(request, timeout=600) as answer:
        return answer.headers, answer.read()


@pytest.fixture
def address(tmp_path):
    with served(tmp_path) as found:
        yield found


def test_what_is_served_is_what_is_written(address, made):
    assert get(f"{address}/")[1] == static_files()["index.html"].read_bytes()
    for name in ("designs/4-any/7", "graphs/2-any/8"):
        headers, content = get(f"{address}/data/{name}.js")
        assert content == script(name, made[name]())
        assert headers["Content-Type"].startswith("text/javascript")
        assert "default-src 'none'" in headers["Content-Security-Policy"]


@pytest.mark.parametrize(
    "path",
    ["/data/../core.js", "/../pyproject.toml", "/data/index", "/data/x.js", "/%2e%2e/site.py"],
)
def test_nothing_else_is_served(address, path):
    with pytest.raises(urllib.error.HTTPError, match="404") as caught:
        get(address + path)
    caught.value.close()


def test_clients_that_idle_leave_or_babble_hold_nobody_up(address, made, capfd):
    """Whoever says nothing, half of it, or leaves in the middle; the others get what they ask."""
    place = urllib.parse.urlsplit(address)
    said = [b"", b"GET /", b"GET /data/index.js HTTP/1.1\r\nHost: localhost:1\r\n", b"\0\r\n\r\n"]
    said += [b"GET //[ HTTP/1.0\r\nHost: localhost:1\r\n\r\n", b"GET /%ff HTTP/9\r\n\r\n"]
    waiting = [socket.create_connection((place.hostname, place.port)) for _ in said]
    for client, text in zip(waiting, said, strict=True):
        client.sendall(text)
    for _ in range(20):  # each is gone before its answer is written
        with socket.create_connection((place.hostname, place.port)) as leaves:
            leaves.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            leaves.sendall(b"GET /data/designs/4-any/7.js HTTP/1.0\r\nHost: localhost:1\r\n\r\n")
    with ThreadPoolExecutor(4) as clients:
        got = clients.map(lambda name: get(f"{address}/data/{name}.js")[1], made)
        assert [unpacked(each)[0] for each in got] == list(made)
    for client in waiting:
        client.close()
    assert capfd.readouterr() == ("", "")


def test_an_idle_client_is_left(tmp_path, monkeypatch):
    monkeypatch.setattr(serve.Handler, "timeout", 0.01)
    with served(tmp_path) as address:
        place = urllib.parse.urlsplit(address)
        with socket.create_connection((place.hostname, place.port), timeout=600) as client:
            assert client.recv(1) == b""


def test_payloads_are_made_once_and_what_fails_is_one_sentence():
    made = []

    def damaged():
        raise ValueError("mine.sqlite is damaged")

    scripts = serve.Scripts({"index": lambda: made.append(1), "x": damaged})
    with ThreadPoolExecutor(4) as clients:
        assert len(set(clients.map(scripts.get, ["index"] * 9))) == 1
    assert made == [1]
    assert scripts.get("y") is None
    with server({"x": damaged}) as serving:
        threading.Thread(target=serving.serve_forever, args=(0.02,)).start()
        with pytest.raises(urllib.error.HTTPError, match="500") as caught:
            get(f"http://127.0.0.1:{serving.server_port}/data/x.js")
        assert b"mine.sqlite is damaged" in caught.value.read()
        caught.value.close()
        serving.shutdown()


def test_pages_of_strangers_cannot_ask_by_another_name(address):
    with pytest.raises(urllib.error.HTTPError, match="421") as caught:
        get(f"{address}/", host="evil.example:80")
    caught.value.close()


def test_serving_says_its_address_and_ends_with_ctrl_c(store):
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "ocs_codesign",
            "explore",
            "--serve",
            "--catalogue",
            str(store.path),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "NO_COLOR": "1"},
    )
    assert process.stdout is not None
    line = process.stdout.readline()
    place = line.split()[4]
    assert place.startswith("http://127.0.0.1:")
    assert b"Explorer" in get(place)[1]
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=600)
    assert (process.returncode, out, err) == (0, "", "Ended.\n")


def test_a_port_that_is_taken_is_said(capsys, store):
    with server({}) as first:
        port = first.server_port
        command = ["explore", "--serve", "--catalogue", str(store.path), "--port", str(port)]
        assert main(command) == 2
    assert "in use" in capsys.readouterr().err


def test_the_licence_of_what_is_vendored_is_there():
    static = static_files()
    assert "vendor/d3.min.js" in static
    assert b"Permission to use, copy, modify" in static["vendor/d3.LICENSE.txt"].read_bytes()
    assert b"https://d3js.org v7.9.0" in static["vendor/d3.min.js"].read_bytes()[:80]


def test_pages_ask_for_nothing_from_elsewhere():
    for place, file in static_files().items():
        if not place.startswith("vendor/"):
            text = file.read_text(encoding="utf-8")
            assert "http:" not in text, place
            assert "https:" not in text, place
            assert "innerHTML" not in text, place
            assert ".html(" not in text, place


@pytest.mark.slow
def test_the_wheel_has_the_pages_and_the_licences(tmp_path):
    command = ["-m", "build", "--wheel", "--no-isolation", "--outdir", str(tmp_path), str(ROOT)]
    done = subprocess.run([sys.executable, *command], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (wheel,) = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    for place in static_files():
        assert f"ocs_codesign/faces/web/static/{place}" in names
    licences = [name.rpartition("licenses/")[2] for name in names if ".dist-info/licenses/" in name]
    licence = "ocs_codesign/faces/web/static/vendor/d3.LICENSE.txt"
    assert {"LICENSE", "NOTICE", licence} <= set(licences)


def test_browsers_are_no_dependency_of_users():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    named = {extra for extra, needed in extras.items() if "playwright" in " ".join(needed)}
    assert named == {"browser"}
    assert "playwright" not in " ".join(project["dependencies"])
