"""A machine that executes PTX on NumPy arrays: all threads of a launch at once, instruction by instruction."""
