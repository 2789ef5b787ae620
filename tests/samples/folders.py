"""Where tests find things: the checkout, its data and the packaged examples."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "tests" / "data"
EXAMPLES = ROOT / "ocs_codesign" / "faces" / "examples"
