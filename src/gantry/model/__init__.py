"""What a cluster is: immutable objects, their parameters, the opcodes that change them, the fields that show them."""
