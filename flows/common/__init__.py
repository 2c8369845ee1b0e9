"""Code shared by the flows."""
