"""PyTrees: how functions reach the arrays within structures."""
