"""The programs, one module each: ``COMMANDS`` declares the subcommands, and short functions run them."""
