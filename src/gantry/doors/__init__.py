"""The ways in: a module per wire, none of which imports another."""
