"""Names that are no file names, directories that hold other things, and text that is markup."""

from __future__ import annotations

from dataclasses import replace

import pytest
from bundle_samples import files_of, named, rows, small_fabric, written

from ocs_codesign.core.files import atomic
from ocs_codesign.fabric.bundle.write import bundle as bundle_module
from ocs_codesign.fabric.bundle.write.bundle import check_bundle_directory
from ocs_codesign.fabric.bundle.write.text import check_file_name, check_names
from ocs_codesign.fabric.deployments.deploy import deploy
from ocs_codesign.faces.web.report.report import write_bundle

BAD_NAMES = (
    *("../up", "..", ".", ".hidden", "a/b", "a\\b", "/etc/x", "C:x", "a;b", "a|b", "", " ", " a"),
    *("a ", "a.", "nul", "COM1.txt", "a\nb", "a\x00b", "-rf", "x" * 121, "a*", "a?", "<a>", '"a"'),
)


def one_ring(fabric, name="ring"):
    return deploy(fabric, named((name, "BiRing(2, 8)")))


def with_switch(name):
    fabric = small_fabric(planes=2)
    first, *others = fabric.switches
    return replace(fabric, switches=(replace(first, name=name), *others))


@pytest.mark.parametrize("name", BAD_NAMES)
def test_names_that_cannot_be_files_are_refused(name):
    with pytest.raises(ValueError, match="cannot be a file name"):
        check_file_name("switch", name)


@pytest.mark.parametrize("name", ["../../escaped", "a/b", "..\\b", "/tmp/escaped"])
def test_nothing_is_written_outside(name, tmp_path):
    out = tmp_path / "deep" / "out"
    with pytest.raises(ValueError, match=r"^switch .* cannot be a file name"):
        write_bundle(one_ring(with_switch(name)), out)
    with pytest.raises(ValueError, match=r"^configuration .* cannot be a file name"):
        write_bundle(one_ring(small_fabric(planes=2), name), out)
    assert not files_of(tmp_path)


def test_names_that_are_one_on_some_systems_or_two_devices_are_refused():
    fabric = small_fabric(planes=2)
    with pytest.raises(ValueError, match="must differ in more than capitals"):
        check_names(with_switch("P1S0"), ["a"])
    with pytest.raises(ValueError, match="must differ in more than capitals"):
        check_names(fabric, ["Ring", "ring"])
    with pytest.raises(ValueError, match="'-to-', which is between the names"):
        check_names(fabric, ["a-to-b"])
    with pytest.raises(ValueError, match="'h3', which is a switch too"):
        check_names(with_switch("h3"), ["a"])


def test_odd_names_stay_text(tmp_path):
    fabric = with_switch("sw & <b>".replace("<b>", "$x_1$ ü"))
    evil = '<script>alert(1)</script>,"x'
    hosts = (evil, "=1+1", *fabric.hosts[2:])
    fabric = replace(fabric, name="<i>&lab", hosts=hosts)
    out = written(one_ring(fabric, "$_ring"), tmp_path / "out")
    assert rows(out / "ranks.csv")[0]["host"] == evil
    assert rows(out / "links" / "$_ring.csv")[0]["from_host"] == evil
    page = (out / "report.html").read_text(encoding="utf-8")
    assert "<script" not in page
    assert "<i>" not in page
    assert "&lt;i&gt;&amp;lab" in page
    assert (out / "cross_connects" / "$_ring" / "sw & $x_1$ ü.csv").exists()


def test_only_bundles_are_replaced(tmp_path):
    deployment, out = one_ring(small_fabric(planes=2)), tmp_path / "out"
    out.mkdir()
    before = files_of(written(deployment, out))
    written(one_ring(small_fabric(planes=3), "other"), out)
    assert not (out / "links" / "ring.csv").exists()
    assert files_of(written(deployment, out)) == before
    (out / "notes.txt").write_text("mine")
    with pytest.raises(ValueError, match=r"holds other files \('notes.txt'\)"):
        write_bundle(deployment, out)
    assert files_of(out) == before | {"notes.txt": b"mine"}
    other = tmp_path / "other"
    other.mkdir()
    (other / "manifest.json").write_text('{"format": "something else", "files": {}}')
    with pytest.raises(ValueError, match="holds other files"):
        check_bundle_directory(other)
    with pytest.raises(NotADirectoryError):
        check_bundle_directory(other / "manifest.json")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["other", "out"]


def test_the_working_directory_is_not_replaced(tmp_path, monkeypatch):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    for directory in (".", tmp_path / "here"):
        with pytest.raises(ValueError, match="is or holds the working directory"):
            check_bundle_directory(directory)
    check_bundle_directory("new")


@pytest.mark.parametrize("step", ["_save_designs", "_manifest", "_move"])
def test_a_failure_leaves_what_was_there(step, tmp_path, monkeypatch):
    deployment, out = one_ring(small_fabric(planes=2)), tmp_path / "out"
    before = files_of(written(deployment, out))

    def fail(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(atomic if step == "_move" else bundle_module, step, fail)
    for directory in (out, tmp_path / "new" / "deeper"):
        with pytest.raises(KeyboardInterrupt):
            write_bundle(one_ring(small_fabric(planes=3)), directory)
    assert files_of(tmp_path) == {f"out/{path}": content for path, content in before.items()}


def test_the_earlier_bundle_comes_back_if_the_move_fails(tmp_path, monkeypatch):
    deployment, out = one_ring(small_fabric(planes=2)), tmp_path / "out"
    before = files_of(written(deployment, out))
    rename, calls = atomic.os.rename, []

    def fail_second(source, target):
        calls.append(target)
        if len(calls) == 2:
            raise OSError(28, "no space left on device", str(target))
        rename(source, target)

    monkeypatch.setattr(atomic, "_exchanged", lambda *_: False)
    monkeypatch.setattr(atomic.os, "rename", fail_second)
    with pytest.raises(OSError, match="no space"):
        write_bundle(deployment, out)
    assert files_of(tmp_path) == {f"out/{path}": content for path, content in before.items()}


def test_what_does_not_fit_or_is_given_twice():
    fabric = small_fabric(planes=2)
    with pytest.raises(ValueError, match="configurations of one fabric are of the same nodes"):
        deploy(fabric, named(("a", "BiRing(2, 8)"), ("b", "BiRing(2, 9)")))
    with pytest.raises(ValueError, match="name 'a' is given twice"):
        deploy(fabric, named(("a", "BiRing(2, 8)"), ("a", "UniRing(2, 8)")))
    with pytest.raises(ValueError, match="collective 'allreduce' is given twice"):
        deploy(fabric, named(("a", "BiRing(2, 8)")), ("allreduce", "allreduce"))
    with pytest.raises(ValueError, match="at least one recipe"):
        deploy(fabric, [])
