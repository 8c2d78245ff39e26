"""The mutation table: whatever a body does to objects, it does to the caller's, element by element as in Python.

``table.py`` lists what is done (``x += 2``, a component, an entry, a draw …), to what, where the construct has it from,
and in which construct; ``texts.py`` writes the program of each cell of their product. ``model.py`` runs that program
for one element at a time, with Python's own ``if`` and ``while``; ``run.py`` runs it in the modes of the library, and
compares: the values of all that the caller holds, which objects they are, what the program returns, derivatives.

``python -m tests.control.mutation`` prints a line for each cell; see ``--help``.
"""
