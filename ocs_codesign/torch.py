"""PyTorch over schedules: ``import ocs_codesign.torch`` registers the process group "ocs".

``python -m ocs_codesign.torch SCRIPT`` runs an unchanged script over it.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec

if find_spec("torch") is None:
    MISSING = "torch is missing: pip install 'ocs-codesign[torch]'"
    if __name__ == "__main__":
        sys.stderr.write(f"Error: {MISSING}\n")
        sys.exit(2)
    raise ImportError(MISSING)

from ocs_codesign.interop.runtimes.torch_group import counts, register, report, use

__all__ = ["counts", "report", "use"]

register()

if __name__ == "__main__":
    from ocs_codesign.interop.runtimes.torch_launch import main

    sys.exit(main(sys.argv[1:]))
