"""Word embeddings for a domain of one's own: corpora, training, and judgement."""
