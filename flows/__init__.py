"""Prefect flows, one per module: what runs, and in which order."""

from infra import environment

environment.apply()
