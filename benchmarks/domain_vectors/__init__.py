"""Which ways of adding a domain's words to GloVe make answers better."""
