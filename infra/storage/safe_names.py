"""Names of files and folders that come from an address, checked before they become paths here."""

from pathlib import PureWindowsPath

from infra.errors import UserError


def is_safe_name(name: object) -> bool:
    """Whether a name leads to a file or folder below the folder that it is relative to.

    It has no `..`, no empty parts, and nothing that another system takes for one of these: neither
    backslashes nor drive letters.
    """
    if not isinstance(name, str) or "\\" in name or "\0" in name or PureWindowsPath(name).drive:
        return False
    return not {"", ".", ".."}.intersection(name.split("/"))


def safe_name(name: str, place: str) -> str:
    """A name that was found at a place, such as an address.

    Raises:
        UserError: it could lead out of the folder that it is relative to.
    """
    if not is_safe_name(name):
        raise UserError(
            f"{place} has a file or folder named {name!r}, which could be written outside of its "
            "folder here, so nothing was written. Check who may write there, and remove or rename "
            "it."
        )
    return name
