"""The grammar of option values: text becomes the structures that opcodes take. Grammar only, no meaning."""
