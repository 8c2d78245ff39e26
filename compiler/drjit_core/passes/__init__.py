"""Passes over the graph before code generation: planning kernels, and assembling each one's program and key: floor 2."""
