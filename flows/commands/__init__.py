"""Commands that are not flows; run one with `python -m flows.commands.<name>`."""
