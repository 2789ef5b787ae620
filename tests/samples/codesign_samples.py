"""Small jobs and clusters for tests of co-designs."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from ocs_codesign.core.cost import CostModel
from ocs_codesign.jobs.cluster_design.cluster import JobCluster, PortPrices, TrainedModel
from ocs_codesign.jobs.cluster_design.exploring import DesignBook, Planner
from ocs_codesign.jobs.fused import Accelerator
from ocs_codesign.jobs.models.layer import Transformer

DOLLARS = PortPrices(*map(Fraction, (520, 99, 659, 187)))
MODEL = Transformer(2, 256, 4, 1024, 1000, 128, 8, experts=2, top_k=1)
DENSE = replace(MODEL, experts=1, layers=3, batch=6)

JOB = """\
name: small
model:
  kind: transformer
  layers: 2
  hidden: 256
  heads: 4
  feed_forward: 1024
  vocabulary: 1000
  sequence: 128
  batch: 8
  experts: 2
parallel: {data: 4, tensor: 2, zero: 1, sequence: true}
"""
CLUSTER = """\
name: eight
servers: {count: 4, accelerators: 2, scale_up: 20GB/s, alpha: 1us}
accelerator: {peak: 10e+12, memory: 1GB, memory_bandwidth: 500GB/s}
optics: {ports: 2, port_bandwidth: 10Gbps, alpha: 5us, switch: polatis-384, delta: 100us}
"""


def cluster(num_servers=4, each=2, ports=2, memory=10**9, delta=Fraction(1, 10**4)):
    inside = CostModel(1e-6, 20e9) if each > 1 else None
    chip = Accelerator(10e12, 500e9)
    rate = Fraction(10 * 10**9, 8)
    return JobCluster(
        *("sample", num_servers, each, chip, memory, inside, ports, rate),
        *(Fraction(5, 10**6), delta, "polatis-384", DOLLARS),
    )


def planner(model=MODEL, on=None):
    return Planner(TrainedModel("sample", model), on or cluster(), DesignBook())
