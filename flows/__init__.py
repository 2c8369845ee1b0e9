"""Prefect flows, one per module: what runs, and in which order."""

import sys

from infra import environment
from infra.errors import UserError

try:
    environment.apply()
except UserError as error:
    # `main` has not been called yet, so nothing else turns the error into a message.
    sys.exit(str(error))
