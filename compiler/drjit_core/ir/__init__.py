"""The graph: nodes, tracing, value numbering, folding, simplification: floor 1."""
