"""Operating systems of instances: OS definitions and their scripts, exports and imports."""
