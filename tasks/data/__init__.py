"""Questions and contexts: read, aligned, ingested, divided into splits."""
