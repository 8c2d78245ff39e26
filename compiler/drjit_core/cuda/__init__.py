"""The driver of NVIDIA's GPUs: all that this project calls of CUDA."""
