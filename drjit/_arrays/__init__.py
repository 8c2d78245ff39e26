"""The array classes: flat, nested, special, tensors; their operators, construction, text and exchange with the host.

Importing the package makes all of them known to the factory of types (:func:`drjit._base.types.base_class`).
"""

from . import complex, flat, matrix, nested, pickling, quaternion, scalar, tensor
