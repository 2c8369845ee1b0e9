"""Hides the secrets in addresses, wherever these are shown or stored."""

import re

MASK = "***"

# Parameters of a query string that grant access. Those of presigned URLs (X-Amz-…, X-Goog-…) are
# masked as a whole, because all of them change with the signature.
_SECRET_NAMES = (
    r"[\w.-]*(?:token|secret|passw(?:or)?d|pwd|signature|credential)[\w.-]*"
    r"|(?:[\w.-]*[-_.])?(?:key|auth|authorization|sig)|(?:api|access|awsaccess)key(?:id)?"
    r"|(?:x-amz|x-goog)-[\w-]+"
)
_USER = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*://)[^\s/?#'\"]+@")
_PARAMETER = re.compile(rf"([?&;]({_SECRET_NAMES})=)[^\s&;#'\"<>]*", re.IGNORECASE)


def mask_secrets(text: str) -> str:
    """The text with the secrets in its addresses replaced by ***: user names and passwords before
    the host, and values of query parameters such as token, key, sig or X-Amz-Signature."""
    return _PARAMETER.sub(rf"\1{MASK}", _USER.sub(rf"\1{MASK}@", text))
