"""Passes over the graph before code generation: planning kernels: floor 2."""
