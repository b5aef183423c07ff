"""What each opcode does: one logical unit per opcode, by noun; units do not import each other."""
