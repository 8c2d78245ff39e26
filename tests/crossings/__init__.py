"""The crossing table: every way to touch an array, in every state of it, in every place.

Three tables span it: ``states.py`` has arrays and what is observed of them elsewhere, ``touches`` what is done to
them beside the same thing done to a NumPy array, ``places.py`` where it is done: plainly, in another thread, in a
forked child, after exceptions, in symbolic and evaluated loops. ``table.py`` says of each cell of their product what
must happen: a value, an error (``REFUSED``), or why it has no meaning (``EXCLUDED``); ``known.py`` lists the cells that
are known to be wrong. Only public names of ``drjit`` are used.

``python -m tests.crossings`` prints the table; see ``--help``.
"""
