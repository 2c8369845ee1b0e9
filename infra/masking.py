"""Hides the secrets in addresses, wherever these are shown or stored."""

import re
from hashlib import sha256

MASK = "***"

# Parameters of a query string that grant access. Those of presigned URLs (X-Amz-…, X-Goog-…) are
# masked as a whole, because all of them change with the signature.
_SECRET_NAMES = (
    r"[\w.-]*(?:token|secret|passw(?:or)?d|pwd|signature|credential)[\w.-]*"
    r"|(?:[\w.-]*[-_.])?(?:key|auth|authorization|sig)|(?:api|access|awsaccess)key(?:id)?"
    r"|(?:x-amz|x-goog)-[\w-]+"
)
_USER = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*://)[^\s/?#'\"]+@")
# Masked, too, but a key may also be the name of the content, as in ?key=questions-2026.
_KEY = re.compile(r"[?&;](?:[\w.-]*[-_.])?key=([^\s&;#'\"<>]*)", re.IGNORECASE)
_PARAMETER = re.compile(rf"([?&;]({_SECRET_NAMES})=)[^\s&;#'\"<>]*", re.IGNORECASE)


def mask_secrets(text: str) -> str:
    """The text with the secrets in its addresses replaced by ***: user names and passwords before
    the host, and values of query parameters such as token, key, sig or X-Amz-Signature."""
    return _PARAMETER.sub(rf"\1{MASK}", _USER.sub(rf"\1{MASK}@", text))


def digest_of_keys(address: str) -> str:
    """Eight hexadecimal digits that depend on the values of query parameters such as key, which
    `mask_secrets` masks although they may be names of content; "" if there are none."""
    keys = _KEY.findall(address)
    return sha256("\n".join(keys).encode()).hexdigest()[:8] if keys else ""
