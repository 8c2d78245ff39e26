"""Random programs over all array types, as values that can be printed, replayed, and made smaller.

A program is a list of inputs and a list of steps. A step is a line of Python source, such as
``v5 = dr.fma(v1, v2, 0.5)``, in which ``T`` is a package of array types; the same program hence runs on every backend
and on any implementation of the API. A program follows from its seed: the generator runs each step that it adds, so
that it knows the types to go on with. Steps that raise stay part of the program: so they must elsewhere.

``programs.py`` has values and programs, ``operations.py`` the table of operations, ``generator.py`` puts them together.
"""
