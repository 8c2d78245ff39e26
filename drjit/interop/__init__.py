"""Exchange of arrays with other packages, without copies on the CPU.

:mod:`.frameworks` knows PyTorch, JAX and TensorFlow, none of which is imported before a program asks for it;
:mod:`.wrap` lets derivatives cross between these and Dr.Jit (:func:`drjit.wrap`); :mod:`.parts` is for packages whose
arrays consist of Dr.Jit's tensors. What goes from array to array is DLPack (:mod:`drjit._arrays.dlpack`).
"""

from .frameworks import to_framework
from .parts import (
    CopyError,
    contiguous_strides,
    export_complex,
    export_parts,
    import_parts,
    interleaved,
    is_on_gpu,
    numpy_of_parts,
    tensor_type,
)
from .wrap import wrap, wrap_ad

__all__ = ["CopyError", "contiguous_strides", "export_complex", "export_parts", "import_parts", "interleaved",
           "is_on_gpu", "numpy_of_parts", "tensor_type", "to_framework", "wrap", "wrap_ad"]
