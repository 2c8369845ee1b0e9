"""Masked addresses."""

import re

import pytest

from infra.errors import UserError
from infra.masking import digest_of_keys, mask_secrets


@pytest.mark.parametrize(
    ("address", "masked"),
    [
        ("https://me:hidden@host/a.json", "https://***@host/a.json"),
        ("https://hidden@host", "https://***@host"),
        ("https://host/a.json?token=hidden", "https://host/a.json?token=***"),
        ("https://host/?id=3&API_KEY=hidden&page=2", "https://host/?id=3&API_KEY=***&page=2"),
        ("https://host/a?private_token=hidden#top", "https://host/a?private_token=***#top"),
        (
            "https://b.s3.amazonaws.com/a?X-Amz-Date=hidden&X-Amz-Signature=hidden&versionId=7",
            "https://b.s3.amazonaws.com/a?X-Amz-Date=***&X-Amz-Signature=***&versionId=7",
        ),
        (
            "https://b/a?AWSAccessKeyId=hidden&Signature=hid%2Fden",
            "https://b/a?AWSAccessKeyId=***&Signature=***",
        ),
        (
            "https://x.blob.core.windows.net/a?sv=2026&sig=hidden",
            "https://x.blob.core.windows.net/a?sv=2026&sig=***",
        ),
        ("s3://hidden:hidden@bucket/a?region=x", "s3://***@bucket/a?region=x"),
    ],
)
def test_masks_secrets_and_nothing_else(address: str, masked: str) -> None:
    assert mask_secrets(address) == masked
    text = f"first {address}, then 'https://u:hidden@h/b' (and \"{address}\")."
    assert "hid" not in mask_secrets(text)
    assert mask_secrets(mask_secrets(text)) == mask_secrets(text)


@pytest.mark.parametrize(
    "address",
    [
        "s3://bucket/folder/me@home.json?endpoint_override=127.0.0.1:9000&scheme=http&region=x",
        "https://host/a.json?author=ada&keyword=mill&assign=1",
        "me@example.org",
        "data/a?b=c/questions.json",
    ],
)
def test_leaves_other_text_unchanged(address: str) -> None:
    assert mask_secrets(address) == address


def test_digest_depends_on_the_keys_only() -> None:
    first, *same = map(digest_of_keys, ("http://h/a?key=1", "http://h/?sig=2&KEY=1", "h?api_key=1"))
    assert re.fullmatch("[0-9a-f]{8}", first) and same == [first, first]
    assert digest_of_keys("http://h/a?key=2") != first
    assert digest_of_keys("http://u:p@h/a?token=1&monkey=2&page=3") == ""


def test_user_errors_are_masked() -> None:
    assert (
        str(UserError("https://a:hidden@h/b?sig=hidden failed")) == "https://***@h/b?sig=*** failed"
    )
