"""The LLVM backend: text of kernels, and their compilation to native code: floor 3."""
