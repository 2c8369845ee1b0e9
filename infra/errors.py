"""The error that is shown to people as one sentence instead of a traceback."""


class UserError(Exception):
    """A mistake that the user can mend, told in one sentence."""
