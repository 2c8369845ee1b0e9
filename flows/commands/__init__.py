"""Commands that are no flows, each run by `python -m flows.commands.<name>`."""
