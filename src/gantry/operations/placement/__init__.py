"""Where an instance goes: the built-in allocator and allocator programs."""
