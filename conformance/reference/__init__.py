"""The pages of the API reference: one for each section, and one that says what of Dr.Jit's reference exists.

``docs/conf.py`` writes the sections into ``docs/reference`` whenever the documentation is built, see
:mod:`conformance.reference.pages`; the other page, ``docs/what-exists.md``, is kept in the repository, see
:mod:`conformance.reference.coverage`.
"""
