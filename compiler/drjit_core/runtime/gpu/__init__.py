"""Kernels on GPUs of NVIDIA: so far what programs are planned and printed for, no memory and no launches."""
