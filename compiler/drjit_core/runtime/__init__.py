"""The runtime: buffers, the allocator, the queue of launches, the kernel cache, history, and eval: floor 4."""
