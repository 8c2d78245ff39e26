"""PTX text of kernels, for GPUs of NVIDIA: text alone, which knows nothing of how it is compiled or launched."""
