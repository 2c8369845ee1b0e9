"""Training of one variant on Ray."""
