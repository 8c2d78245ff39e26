"""The backend that runs kernels of LLVM on the cores of this machine: pool of threads, memory, caches, dumps."""
