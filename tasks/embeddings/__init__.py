"""Word vectors and language models: formats, corpora, training and evaluation."""
