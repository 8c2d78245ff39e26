"""Control flow over arrays."""
