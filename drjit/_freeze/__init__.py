"""Frozen functions: traced once, and launched again by later calls."""
