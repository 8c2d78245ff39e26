"""Array types of the LLVM backend: programs are compiled for the vector units of the CPU and run on all its cores."""

from drjit_core import JitBackend

from .._base.types import package

package(globals(), JitBackend.LLVM)
