"""Read, align and ingest questions and contexts, and divide them into splits."""
