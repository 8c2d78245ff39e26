"""The program of a kernel, shared by all emitters: floor 2."""
