"""The op table and the scalar meaning of its rows: floor 0."""
