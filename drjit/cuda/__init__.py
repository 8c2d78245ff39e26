"""Array types of the CUDA backend: programs are compiled for NVIDIA GPUs. Importable on machines without one."""

from drjit_core import JitBackend

from .._base.types import package

package(globals(), JitBackend.CUDA, others={"green_context": "drjit.cuda.contexts", **dict.fromkeys((
    "GLInterop", "register_gl_buffer", "register_gl_texture", "unregister_cuda_resource", "map_graphics_resource_ptr",
    "map_graphics_resource_array", "unmap_graphics_resource", "memcpy_2d_to_array_async"), "drjit.cuda.interop")})
