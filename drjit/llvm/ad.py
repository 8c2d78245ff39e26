"""Array types of the LLVM backend that track derivatives."""

from drjit_core import JitBackend

from .._base.types import package

package(globals(), JitBackend.LLVM, diff=True)
