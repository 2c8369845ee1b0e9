"""The work of each step: plain typed functions, some of them exposed as cached Prefect tasks."""
