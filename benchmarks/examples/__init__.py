"""Ordinary NumPy scripts, which run on any module with NumPy's names: see ``benchmarks/numpy_scripts.py``."""
