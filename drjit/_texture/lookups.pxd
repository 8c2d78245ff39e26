from drjit_core.derivatives.formulas cimport product
from drjit_core.ir.dual cimport primal, tracked
