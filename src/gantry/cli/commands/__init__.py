"""Commands and options that several programs share, by subject."""
