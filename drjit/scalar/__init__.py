"""Array types of the scalar backend: static arrays of Python numbers, computed at once."""

from drjit_core import JitBackend

from .._base.types import package

package(globals(), JitBackend.Invalid)
