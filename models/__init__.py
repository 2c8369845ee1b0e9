"""The BiDAF family: torch and numpy only, no files, no network, no orchestration."""
