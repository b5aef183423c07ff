"""The programs, one module each: ``COMMANDS`` declares the sub-commands, thin functions carry them out."""
