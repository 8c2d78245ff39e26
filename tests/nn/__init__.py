"""Networks: cooperative vectors, modules, encodings."""
