"""The array classes: flat, nested, special, tensors; their operators, construction, text and exchange with the host."""
