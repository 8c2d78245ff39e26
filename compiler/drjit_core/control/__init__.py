"""Control flow that is captured in the graph: floor 2."""
