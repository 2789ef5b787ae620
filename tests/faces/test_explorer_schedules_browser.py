"""The explorer opens a bundle as one file and plays saved schedules; bad files are refused."""

from __future__ import annotations

import io
import json
import math
import struct
import zipfile
import zlib
from collections import defaultdict

import numpy as np
import pytest
from browser_samples import PHONE, launched, opened, violations
from bundle_samples import named, small_fabric, written

from ocs_codesign.fabric.bundle.write.bundle import write_archive
from ocs_codesign.fabric.deployments.deploy import deploy
from ocs_codesign.faces.web.site import payloads, write_site
from ocs_codesign.graphs.text import parse
from ocs_codesign.schedules.design import Question, build
from ocs_codesign.schedules.files.archive import write_schedule
from ocs_codesign.schedules.stepped.alltoall import stepped_plan
from ocs_codesign.search.catalogue.store import Catalogue

COLLECTIVES = ("allreduce", "alltoall")


@pytest.fixture(scope="module")
def browser():
    with launched() as started:
        yield started


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return tmp_path_factory.mktemp("schedules")


@pytest.fixture(scope="module")
def site(place):
    with Catalogue() as store:
        write_site(place / "site", payloads(store, "one", [Question(8, 2)], 8))
    return (place / "site" / "index.html").as_uri()


@pytest.fixture(scope="module")
def deployment():
    recipes = named(("ring", "BiRing(2, 8)"), ("cube", "Circulant(8, (1, 3))"))
    return deploy(small_fabric(), recipes, COLLECTIVES)


@pytest.fixture(scope="module")
def bundle(place, deployment):
    out = written(deployment, place / "bundle")
    names = json.loads((out / "manifest.json").read_bytes())["files"]
    write_archive(out, names, place / "bundle.zip")
    return out


def saved(schedule):
    content = io.BytesIO()
    write_schedule(content, schedule)
    return {"name": "schedule.npz", "mimeType": "", "buffer": content.getvalue()}


def test_a_zip_is_opened_as_the_directory_is(browser, site, bundle, place):
    with opened(browser, site, "view=files", viewport=PHONE, color_scheme="dark") as page:
        page.set_input_files("#archive", place / "bundle.zip")
        page.wait_for_selector(".opened canvas >> nth=1")
        text = page.inner_text(".opened")
        assert "all as the manifest lists them" in text
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert violations(page) == []
        page.set_input_files("#bundle", bundle)
        page.wait_for_selector(".opened canvas >> nth=1")
        assert page.inner_text(".opened") == text


def test_zips_of_other_makers_are_opened(browser, site, bundle, place):
    """Without a folder and stored, or by another hand with an entry a directory and a comment."""
    for number, (folder, method) in enumerate((("", zipfile.ZIP_STORED), ("a/", 8))):
        target = place / f"other{number}.zip"
        with zipfile.ZipFile(target, "w", method) as archive:
            archive.comment = b"PK\x05\x06 of somebody"
            if folder:
                archive.mkdir("a")
            for path in bundle.rglob("*"):
                if path.is_file():
                    archive.write(path, folder + path.relative_to(bundle).as_posix())
        with opened(browser, site, "view=files") as page:
            page.set_input_files("#archive", target)
            page.wait_for_selector(".opened canvas >> nth=1")
            assert "all as the manifest lists them" in page.inner_text(".opened")


def test_schedules_of_a_bundle_are_played(browser, site, bundle, deployment):
    with opened(browser, site, "view=files") as page:
        page.set_input_files("#bundle", bundle)
        page.wait_for_selector(".opened canvas >> nth=1")
        for at, one in enumerate(deployment.configurations):
            section = page.locator(f"section[aria-label='Configuration {one.name}']")
            for bounded in one.designs:
                kind = bounded.collective.name
                section.locator("select >> nth=0").select_option(kind)
                section.locator(f"section[aria-label$='{one.name}, {kind}'] .loads").wait_for()
                shown = page.locator(".loads").nth(at)
                assert shown.get_attribute("data-t_b") == str(bounded.design.cost.t_b)
                assert "Loads of this schedule" in shown.inner_text()
        page.locator("[aria-label='Step forward']").nth(0).click()
        told = page.locator(".told").nth(0).inner_text()
        assert told.startswith("Step 1 of")
        assert "carry the data of node 0" in told


def test_a_schedule_of_other_links_is_not_played(browser, site, bundle, tmp_path):
    other = tmp_path / "bundle"
    for path in bundle.rglob("*"):
        if path.is_file():
            here = other / path.relative_to(bundle)
            here.parent.mkdir(parents=True, exist_ok=True)
            here.write_bytes(path.read_bytes())
    (other / "schedules/ring/allreduce/schedule.npz").write_bytes(
        (bundle / "schedules/cube/allreduce/schedule.npz").read_bytes()
    )
    with opened(browser, site, "view=files") as page:
        page.set_input_files("#bundle", other)
        page.wait_for_selector(".opened canvas >> nth=1")
        said = page.inner_text(".opened [role=alert]")
        assert "its links are not those of links/ring.csv" in said
        assert page.get_attribute(".loads >> nth=0", "data-t_b") == "7/8"


PLAYED = [
    ("GeneralizedKautz(2, 7)", "allgather"),
    ("BiRing(2, 5)", "reduce-scatter"),
    ("Circulant(9, (1, 2))", "allreduce"),
    ("GeneralizedKautz(2, 6)", "alltoall"),
    ("Line(CompleteBipartite(2))", "allreduce"),
]


@pytest.mark.parametrize(("recipe", "collective"), PLAYED)
def test_what_is_played_is_what_was_saved(browser, site, recipe, collective):
    if collective == "alltoall":
        schedule = stepped_plan(parse(recipe).topology()).schedule
    else:
        schedule = build(parse(recipe), collective).schedule
    cost = schedule.synchronous_cost()
    with opened(browser, site, "view=files") as page:
        page.set_input_files("#schedule", saved(schedule))
        page.wait_for_selector(".loads")
        assert page.get_attribute(".loads", "data-t_b") == str(cost.t_b)
        played = page.evaluate(
            """async () => {
                const [file] = document.querySelector("#schedule").files;
                const saved = await explorer.schedule.read(file);
                return Array.from({ length: saved.graph.n }, (_, root) => {
                    const plan = saved.plan(root);
                    return Array.from({ length: plan.total }, (_, before) => {
                        const { now, has } = plan.at(before + 1);
                        return [now.map(({ link, share }) => [link, share]),
                            Array.from({ length: saved.graph.n }, (_, node) => has(node)),
                            plan.reduces(before + 1)];
                    });
                });
            }"""
        )
    check_played(schedule, played)


def check_played(schedule, played):
    """Every send of every step, and who has all that it is to have, by carrying chunks about."""
    topology, nodes = schedule.topology, schedule.topology.num_nodes
    assert len(played) == nodes
    phase = np.zeros(schedule.num_sends, dtype=int) if schedule.phase is None else schedule.phase
    gathers = schedule.collective.name in ("allgather", "alltoall") or phase.any()
    halfway = schedule.step[phase == 0].max() if schedule.phase is not None else 0
    rows = list(zip(*(column.tolist() for column in schedule.columns()[:5]), strict=True))
    for root, steps in enumerate(played):
        assert len(steps) == schedule.num_steps
        held = defaultdict(set)
        held[root] = set(range(schedule.num_chunks))
        for step, (now, has, reduces) in enumerate(steps, 1):
            carried = defaultdict(int)
            for item, lo, hi, link, when in rows:
                if (item, when) == (root, step):
                    carried[link] += hi - lo
                    if not reduces:
                        held[int(topology.head[link])] |= set(range(lo, hi))
            assert dict(map(tuple, now)) == pytest.approx(
                {link: min(1, chunks / schedule.num_chunks) for link, chunks in carried.items()}
            )
            assert reduces == (step <= halfway or not gathers)
            if reduces:
                later = {int(topology.tail[link]) for item, _, _, link, when in rows
                         if item == root and step < when <= (halfway or math.inf)}  # fmt: skip
                assert has == [node == root or node in later for node in range(nodes)]
            else:
                assert has == [wanted(schedule, node) <= held[node] for node in range(nodes)]


def test_a_shard_is_there_when_all_of_it_has_come(browser, site):
    columns = {"root": [0, 0, 0], "lo": [0, 2, 1], "hi": [1, 3, 2], "link": [0, 0, 0]}
    content = arrays(**columns, step=[1, 1, 2], num_chunks=3)
    with opened(browser, site, "view=files") as page:
        file = {"name": "schedule.npz", "mimeType": "", "buffer": content}
        page.set_input_files("#schedule", file)
        page.wait_for_selector(".loads")
        has = page.evaluate(
            """async () => {
                const [file] = document.querySelector("#schedule").files;
                const saved = await explorer.schedule.read(file);
                return [1, 2].map((step) => saved.plan(0).at(step).has(1));
            }"""
        )
        assert has == [False, True]
        assert page.get_attribute(".loads", "data-t_b") == "1/2"


def wanted(schedule, node):
    if schedule.collective.name != "alltoall":
        return set(range(schedule.num_chunks))
    unit = schedule.num_chunks // schedule.topology.num_nodes
    return set(range(node * unit, (node + 1) * unit))


def zipped(entries, **options):
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", **options) as archive:
        for name, data in entries:
            archive.writestr(name, data)
    return bytearray(content.getvalue())


def lied(content, field, value, size="<I"):
    """The archive with a number of its only entry in the directory changed."""
    at = content.rindex(b"PK\x01\x02") + field
    struct.pack_into(size, content, at, value)
    return content


def bomb():
    """An entry that inflates to far more than it declares."""
    packer = zlib.compressobj(9, wbits=-15)
    data = packer.compress(bytes(2**26)) + packer.flush()
    content = zipped([("manifest.json", data)])
    at = content.rindex(b"PK\x01\x02")
    struct.pack_into("<H", content, at + 10, 8)
    struct.pack_into("<I", content, at + 24, 100)
    return content


HOSTILE = [
    (b"", "is no zip archive"),
    (b"PK\x05\x06" + bytes(18), "has no manifest.json"),
    (zipped([("a.txt", b"x")]), "has no manifest.json"),
    (zipped([("a/manifest.json", b"{}"), ("b/manifest.json", b"{}")]), "several bundles"),
    (zipped([("manifest.json", b"{")]), "manifest.json is no JSON"),
    (zipped([("manifest.json", b"{}")]), "not that of a bundle"),
    (zipped([("../manifest.json", b"{}")]), "is no name of a file in an archive"),
    (zipped([("/manifest.json", b"{}")]), "is no name of a file in an archive"),
    (zipped([("manifest.json", b"{}" * 99)])[:-60], "is no zip archive"),
    (lied(zipped([("manifest.json", b"{}")]), 8, 1, "<H"), "is encrypted"),
    (lied(zipped([("manifest.json", b"{}")]), 10, 12, "<H"), "neither stored nor deflated"),
    (lied(zipped([("manifest.json", b"{}")]), 16, 1), "manifest.json is damaged"),
    (lied(zipped([("manifest.json", b"{}")]), 24, 2**27), "has more than 64 MiB"),
    (lied(zipped([("manifest.json", b"{}")]), 24, 3), "declares more bytes than it can hold"),
    (lied(zipped([("manifest.json", b"{}")]), 42, 2**31), "is cut short or damaged"),
    (lied(zipped([("manifest.json", b"{}")]), 28, 2**15, "<H"), "directory of the archive is dam"),
    (bomb(), "manifest.json is damaged"),
    (zipped([("x" * 9, b"")] * 1 + [(f"{n}", b"") for n in range(20001)]), "more than 20000 files"),
]


def test_hostile_archives_are_refused_in_a_sentence(browser, site):
    with opened(browser, site, "view=files") as page:
        for content, says in HOSTILE:
            file = {"name": "x.zip", "mimeType": "", "buffer": bytes(content)}
            page.set_input_files("#archive", file)
            page.locator("[role=alert]", has_text=says).wait_for()
            page.evaluate("document.querySelector('.opened').replaceChildren()")


def arrays(**changes):
    """A small schedule with some arrays others, or without them."""
    columns = {"root": [0, 1], "lo": [0, 0], "hi": [1, 1], "link": [0, 1], "step": [1, 1]}
    plain = {"tail": [0, 1], "head": [1, 0], **columns, "num_chunks": 1, "collective": "allgather"}
    content = io.BytesIO()
    np.savez(
        content, **{name: np.array(v) for name, v in (plain | changes).items() if v is not None}
    )
    return content.getvalue()


BAD_SCHEDULES = [
    (arrays(tail=None), "the array tail is missing"),
    (arrays(hi=[1, 2]), "the array hi has 2: it must be from 1 to 1"),
    (arrays(link=[0, -1]), "the array link has -1: it must be from 0 to 1"),
    (arrays(lo=[0]), "the array lo is not as long as the others"),
    (arrays(step=[1.5, 1]), "the array step is not of one dimension, or not of integers"),
    (arrays(step=[[1], [1]]), "the array step is not of one dimension"),
    (arrays(root=[0, 7]), "numbers of nodes that are not there"),
    (arrays(root=[0, 2**60]), "the array root has numbers that are too large"),
    (arrays(collective="magic"), "a schedule of magic is not played"),
    (arrays(collective="allreduce"), "has a phase for every send"),
    (arrays(collective="alltoall"), "must be a multiple of 2 nodes"),
    (arrays(num_chunks=0), "num_chunks is no number of chunks"),
    (arrays(link_speed=[1, 2]), "links of unequal speeds are not played"),
    (arrays(secret=[1]), "the array secret is of no schedule"),
    (bytes(zipped([("root.npy", b"\x93NUMPY\x01\x00\xff\xffjunk")])), "has no readable header"),
    (bytes(zipped([("root.txt", b"0")])), "is no archive of arrays"),
    (b"no zip", "is no zip archive"),
]


def test_bad_schedules_are_refused_in_a_sentence(browser, site):
    with opened(browser, site, "view=files") as page:
        page.set_input_files("#schedule", {"name": "s.npz", "mimeType": "", "buffer": arrays()})
        page.wait_for_selector(".loads")
        for content, says in BAD_SCHEDULES:
            page.set_input_files("#schedule", {"name": "s.npz", "mimeType": "", "buffer": content})
            page.locator("[role=alert]", has_text=says).wait_for()
