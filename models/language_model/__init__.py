"""The bidirectional language model of ELMo, and its training."""
