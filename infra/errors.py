"""The error that users see as one message instead of a traceback."""


class UserError(Exception):
    """A mistake that the user can fix; the message names the problem and its place."""
