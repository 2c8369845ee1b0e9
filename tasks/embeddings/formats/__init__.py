"""Word-vector files: reading, selecting rows, and writing."""
