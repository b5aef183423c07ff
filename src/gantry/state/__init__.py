"""What survives: transactions over one journal, its checkpoint files, and their copies on the master candidates."""
