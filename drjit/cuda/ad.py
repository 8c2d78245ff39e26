"""Array types of the CUDA backend that track derivatives. Importable on machines without a GPU."""

from drjit_core import JitBackend

from .._base.types import package

package(globals(), JitBackend.CUDA, diff=True, others={"green_context": "drjit.cuda.contexts"})
