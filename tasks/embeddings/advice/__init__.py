"""What word vectors can be expected to do for a dataset, before any model is trained."""
