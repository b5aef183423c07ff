"""Commands and options by subject, for the programs that offer them."""
