"""Files of word vectors: read, selected from, written."""
