"""The generator of the type stubs, see ``__main__``."""
