"""What runs and in what order: one file per Prefect flow."""

from infra import environment

environment.apply()
