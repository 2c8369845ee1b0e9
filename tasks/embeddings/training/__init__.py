"""Training of word vectors on a corpus."""
