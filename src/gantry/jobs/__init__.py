"""Jobs and locks: the queue, the lock manager, and the life of an opcode from submission to result."""
