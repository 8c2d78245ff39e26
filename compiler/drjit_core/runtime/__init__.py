"""The runtime: evaluation, backends, memory of arrays, access of the host, history: floor 4."""
