"""Training of word vectors on a text corpus."""
