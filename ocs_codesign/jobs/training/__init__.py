"""What a training step takes on real accelerators, fitted on published runs.

A Transformer, a Division and a Room of accelerators give a StepEstimate: counts.py has what is
exact (parameters, operations, bytes), layers.py what kernels take, pipelines.py how stages wait,
step.py puts them together, search.py ranks divisions, fitting.py fits measured steps. Constants are
data with sources: chips.toml, software.toml.
"""
