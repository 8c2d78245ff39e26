"""Textures: lookups in grids of texels."""
