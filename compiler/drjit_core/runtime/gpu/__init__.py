"""Kernels on GPUs of NVIDIA: memory, launches, and what programs are planned for."""
