"""Reading and writing elements: keys, slices, gathers and scatters."""
