"""Who may change what (``model.access``): the needs of opcodes, their check, and the units that change the rules."""
