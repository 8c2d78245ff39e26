"""Formulas on component nodes: reals, complex numbers, quaternions, matrices."""
