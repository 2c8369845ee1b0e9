"""The renderer of manifests: every value is known, used and one line."""

import re
from pathlib import Path

import pytest

from infra.errors import UserError
from infra.kubernetes.render import MANIFESTS, read_values, render

VALUES = MANIFESTS.with_name("values.yaml")


def with_line(folder: Path, line: str, instead_of: str = "") -> Path:
    file = folder / "values.yaml"
    text = VALUES.read_text()
    kept = [other for other in text.splitlines() if not instead_of or instead_of not in other]
    file.write_text("\n".join([*kept, line]) + "\n")
    return file


def test_manifests_have_all_values(tmp_path: Path) -> None:
    written = render(VALUES, tmp_path)
    names = {file.relative_to(tmp_path) for file in written}
    assert names == {file.relative_to(MANIFESTS) for file in MANIFESTS.rglob("*.yaml")}
    assert [file for file in written if "${" in file.read_text()] == []
    assert "image: registry.example.org/bidaflow:cpu-1\n" in (tmp_path / "ray.yaml").read_text()


def test_changed_value_restarts_the_servers(tmp_path: Path) -> None:
    """Running pods do not see a changed ConfigMap, but each annotation of theirs."""
    annotations = []
    for number, line in enumerate(("cache_size: 1Gi", "cache_size: 2Gi", "cache_size: 2Gi")):
        render(with_line(tmp_path, line, instead_of="cache_size"), tmp_path / str(number))
        manifest = (tmp_path / str(number) / "prefect-worker.yaml").read_text()
        (found,) = re.findall("bidaflow/rendered: (.*) #", manifest)
        annotations.append(found)
    assert annotations[0] != annotations[1] == annotations[2]


def test_value_that_no_manifest_uses_is_refused(tmp_path: Path) -> None:
    file = with_line(tmp_path, "imaeg: other")
    with pytest.raises(
        UserError, match=r"no manifest uses `imaeg`\. Remove it\. Did you mean 'image'"
    ):
        render(file, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_missing_value_is_named_with_its_manifest(tmp_path: Path) -> None:
    file = with_line(tmp_path, "", instead_of="ingress_class:")
    with pytest.raises(
        UserError, match=r"lacks `ingress_class`, which ingress\.yaml uses\. Add it"
    ):
        render(file, tmp_path / "out")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("image: [a, b]", "`image` must be one line"),
        ("image: true", "`image` must be one line"),
        ('image: "a\\nb"', "`image` must be one line"),
        ("image: {", "not valid YAML"),
        ("cpu_worker_cpus: 7500m", "`cpu_worker_cpus` must be a whole number"),
    ],
)
def test_invalid_values_are_refused(line: str, message: str, tmp_path: Path) -> None:
    file = with_line(tmp_path, line, instead_of=f"{line.partition(':')[0]}:")
    with pytest.raises(UserError, match=message):
        render(file, tmp_path / "out")


def test_files_that_cannot_be_used_are_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="No such file"):
        read_values(tmp_path / "missing.yaml")
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="has no values"):
        read_values(tmp_path / "file")
    with pytest.raises(UserError, match="Choose another folder"):
        render(VALUES, tmp_path / "file")
