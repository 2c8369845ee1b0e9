"""Tokenization, vocabularies, and splits encoded as token ids."""
