"""Word vectors and language models: formats, corpora, training, evaluation and advice."""
