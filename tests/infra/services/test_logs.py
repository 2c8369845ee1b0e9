"""Rotation of the service logs."""

from pathlib import Path

from infra.services.logs import MAX_LOG_BYTES, log_file, rotate_if_long


def test_rotates_long_logs_and_keeps_short_ones(root: Path) -> None:
    rotate_if_long("prefect")  # the very first start: there is no log yet
    for text in ("the earliest", "the last"):
        log_file("prefect").write_text(text, encoding="utf-8")
        with log_file("prefect").open("r+b") as log:
            log.truncate(MAX_LOG_BYTES + 1)
        rotate_if_long("prefect")
    log_file("prefect").write_text("short", encoding="utf-8")
    rotate_if_long("prefect")
    assert log_file("prefect").read_text(encoding="utf-8") == "short"
    (earlier,) = (root / "logs").glob("prefect.log.*")
    assert earlier.read_bytes().startswith(b"the last")
