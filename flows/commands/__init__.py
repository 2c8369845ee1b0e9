"""Commands that are not flows, and what all commands share."""
