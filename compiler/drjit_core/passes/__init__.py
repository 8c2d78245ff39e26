"""Passes over the graph before code generation: cutting it into kernels: floor 2."""
