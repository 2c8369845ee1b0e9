"""Rotation of the service logs."""

from pathlib import Path

from infra.services.logs import LONG, log_file, set_long_aside


def test_rotates_long_logs_and_keeps_short_ones(root: Path) -> None:
    set_long_aside("prefect")  # the very first start: there is no log yet
    for text in ("the earliest", "the last"):
        log_file("prefect").write_text(text, encoding="utf-8")
        with log_file("prefect").open("r+b") as log:
            log.truncate(LONG + 1)
        set_long_aside("prefect")
    log_file("prefect").write_text("short", encoding="utf-8")
    set_long_aside("prefect")
    assert log_file("prefect").read_text(encoding="utf-8") == "short"
    (earlier,) = (root / "logs").glob("prefect.log.*")
    assert earlier.read_bytes().startswith(b"the last")
