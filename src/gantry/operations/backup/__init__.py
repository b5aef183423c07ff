"""Units that export instances and remove exports, and the import of an export."""
