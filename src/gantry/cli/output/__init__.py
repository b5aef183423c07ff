"""What commands print: tables, documents, pool maps, files for other programs."""
