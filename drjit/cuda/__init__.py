"""Array types of the CUDA backend: programs are compiled for NVIDIA GPUs. Importable on machines without one."""

from drjit_core import JitBackend

from .._base.types import package

package(globals(), JitBackend.CUDA)
