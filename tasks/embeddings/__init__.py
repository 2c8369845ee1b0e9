"""Domain-specific word embeddings: corpora, training, and evaluation."""
