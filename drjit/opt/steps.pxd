cimport cython

from drjit_core.ir.dual cimport dual, primal, vertex_of
