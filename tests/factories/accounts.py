"""An account that is not root, for programs that must not run as root."""

import os
import pwd
from pathlib import Path
from typing import Any


def give_to_nobody(folder: Path) -> dict[str, Any]:
    """Give a folder to the account `nobody`; the arguments of subprocess that run a command as it.

    If the tests do not run as root, the folder and commands stay with their account.
    """
    if os.geteuid() != 0:
        return {}
    nobody = pwd.getpwnam("nobody")
    os.chown(folder, nobody.pw_uid, nobody.pw_gid)
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
