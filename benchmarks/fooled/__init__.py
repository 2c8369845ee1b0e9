"""The error analysis of models on SQuAD 2.0: which unanswerable questions fool them, and why."""
