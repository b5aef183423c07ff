"""Units that create, start, stop, change, rename and reinstall instances."""
