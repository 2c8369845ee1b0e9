"""The training of one variant on Ray."""
