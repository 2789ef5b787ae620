"""The notebooks of the documentation: run again they print what they hold."""

from __future__ import annotations

import nbformat
import pytest
from folders import ROOT

from ocs_codesign.faces.notebook import notebook_html

NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))


def read(path):
    return nbformat.read(path, as_version=4)


def texts(notebook):
    """What every cell of code printed or returned, as text."""
    return [
        "".join(
            output.get("text") or output.get("data", {}).get("text/plain", "")
            for output in cell.outputs
        )
        for cell in notebook.cells
        if cell.cell_type == "code"
    ]


def test_there_are_three():
    assert len(NOTEBOOKS) == 3


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_was_executed_in_order_and_names_no_place(path):
    notebook = read(path)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    assert all(output.output_type != "error" for cell in cells for output in cell.outputs)
    assert "stderr" not in str([cell.outputs for cell in cells])
    assert "/home/" not in (text := path.read_text(encoding="utf-8"))
    assert "/tmp/" not in text
    assert any("text/html" in output.get("data", {}) for cell in cells for output in cell.outputs)


def style_of(html):
    return html.partition("<style>")[2].partition("</style>")[0]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_its_tables_have_the_style_of_today(path):
    cells = [cell for cell in read(path).cells if cell.cell_type == "code"]
    shown = [output.get("data", {}).get("text/html", "") for c in cells for output in c.outputs]
    styles = {style_of("".join(html)) for html in shown if "ocs-shown" in html}
    assert styles == {style_of(notebook_html([]))}


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_run_again_it_says_the_same(path, tmp_path):
    from nbclient import NotebookClient

    stored, again = read(path), read(path)
    client = NotebookClient(
        again, timeout=600, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}
    )
    client.execute()
    assert texts(again) == texts(stored)
