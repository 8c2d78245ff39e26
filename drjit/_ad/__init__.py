"""Derivatives of arrays: the public functions. Private."""
