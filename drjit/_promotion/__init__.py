"""Promotion: from the arguments of an operation to nodes of one type and shape."""
