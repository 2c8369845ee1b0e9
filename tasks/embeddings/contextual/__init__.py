"""Contextual word vectors: files of bidirectional language models, and the corpus they read."""
