"""Training on Ray: of one variant, or of one language model."""
