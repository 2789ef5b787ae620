"""Formats of others, in and out, and runs on real processes.

A verified plan is lowered to a RankProgram (lowering/) and leaves as one of the formats that
registry lists: MSCCL XML, MSCCL++ plans, Chakra traces, NCCL graphs and tuner rules, ASTRA-sim
inputs, CSV of sends, or native JSON; what comes back is raised and checked. run/ runs it with MPI
and measures.

Read registry and lowering.lowering, then one format (msccl.write).

>>> from ocs_codesign.interop.registry import FORMATS
>>> FORMATS["msccl"].description
"MSCCL XML, of microsoft's loader"
"""

from __future__ import annotations
