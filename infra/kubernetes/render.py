"""Renders the manifests: each `${name}` in them is replaced by the value of that name.

Usage: python -m infra.kubernetes.render VALUES OUTPUT

VALUES is a YAML file like infra/kubernetes/values.yaml, OUTPUT the folder for the manifests.
"""

import re
import sys
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

import yaml

from infra.atomic_files import write_atomically
from infra.errors import UserError, did_you_mean

MANIFESTS = Path(__file__).with_name("manifests")
NAME = re.compile(r"\$\{([^}]*)\}")
NUMBERS = re.compile("_(cpus|min|max|port|runs)$")
DIGEST = "digest"  # the name of a value that changes with any value or manifest


def render(values_file: Path, output: Path) -> list[Path]:
    """Write all manifests with the values of a file; returns the files written.

    Raises:
        UserError: a value is unknown, unused or invalid, or a file can't be read or written.
    """
    templates = {
        file: file.read_text(encoding="utf-8") for file in sorted(MANIFESTS.rglob("*.yaml"))
    }
    values = read_values(values_file)
    content = "".join([*templates.values(), *map(str, sorted(values.items()))])
    values = {**values, DIGEST: sha256(content.encode()).hexdigest()[:16]}
    used = {name: file.name for file, text in templates.items() for name in NAME.findall(text)}
    for name in used.keys() - values.keys():
        raise UserError(f"{values_file} lacks `{name}`, which {used[name]} uses. Add it.")
    for name in values.keys() - used.keys():
        raise UserError(
            f"{values_file}: no manifest uses `{name}`. Remove it.{did_you_mean(name, used)}"
        )
    written = []
    for file, text in templates.items():
        written.append(output / file.relative_to(MANIFESTS))
        try:
            write_atomically(written[-1], NAME.sub(lambda name: values[name[1]], text))
        except OSError as error:
            raise UserError(
                f"Can't write {written[-1]}: {error.strerror}. Choose another folder."
            ) from error
    return written


def read_values(file: Path) -> Mapping[str, str]:
    """The values of a YAML file by name.

    Raises:
        UserError: the file can't be read, or has something else than names with one value each.
    """
    try:
        values: Any = yaml.safe_load(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"Can't read {file}: {error.strerror}. Correct the path.") from error
    except yaml.YAMLError as error:
        raise UserError(f"{file} is not valid YAML ({error}). Correct it.") from error
    if not isinstance(values, dict):
        raise UserError(f"{file} has no values. Write one `name: value` per line.")
    for name, value in values.items():
        if not isinstance(value, str | int) or isinstance(value, bool) or "\n" in str(value):
            raise UserError(f"{file}: `{name}` must be one line of text or a whole number.")
        if NUMBERS.search(str(name)) and not str(value).isdecimal():
            raise UserError(f"{file}: `{name}` must be a whole number.")
    return {str(name): str(value) for name, value in values.items()}


def main() -> None:
    """Render the manifests with the values and to the folder that the arguments name."""
    if len(sys.argv) != 3:
        sys.exit("Usage: python -m infra.kubernetes.render VALUES OUTPUT")
    try:
        written = render(Path(sys.argv[1]), Path(sys.argv[2]))
    except UserError as error:
        sys.exit(str(error))
    print(f"Wrote {len(written)} manifests to {sys.argv[2]}.")


if __name__ == "__main__":
    main()
