"""Names files that contain files or formatted text, which nothing here reads, and what to do."""

UNPACK = "Unpack it, and name the folder or a file in it."
TO_TEXT = "Save its text as .txt, or its questions as JSON, JSON Lines, CSV or Parquet."
TO_CSV = "Save its sheet as CSV."

# By their first bytes: what the file is, and what to do.
_KINDS = {
    b"7z\xbc\xaf\x27\x1c": ("a 7z archive", UNPACK),
    b"Rar!\x1a\x07": ("a RAR archive", UNPACK),
    b"BZh": ("compressed with bzip2", "Decompress it, or use gzip, xz or Zstandard."),
    b"%PDF-": ("a PDF", TO_TEXT),
    b"{\\rtf": ("an RTF document", TO_TEXT),
    b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1": ("a Word or Excel file (doc, xls)", TO_TEXT),
    b"version https://git-lfs": ("a Git LFS pointer, not the data", "Run `git lfs pull`."),
    b"/annex/objects/": ("a git-annex pointer, not the data", "Run `git annex get`."),
}
# Zips, by the name of a file in each, which is not compressed.
_ZIPS = {
    b"word/document.xml": ("a Word document (docx)", TO_TEXT),
    b"xl/workbook.xml": ("an Excel workbook (xlsx)", TO_CSV),
    b"mimetypeapplication/": ("an OpenDocument or EPUB file", TO_TEXT),
}
_ZIP = ("a zip archive", "Rename it so that it ends in .zip.")


def container(beginning: bytes) -> str | None:
    """What a file is, and what to do, by its first bytes, the more the better; None if the file is
    none of these."""
    kind = next((kind for magic, kind in _KINDS.items() if beginning.startswith(magic)), None)
    if beginning[257:262] == b"ustar":
        kind = "a tar archive", UNPACK
    elif beginning.startswith(b"PK\3\4"):
        kind = next((zipped for name, zipped in _ZIPS.items() if name in beginning), _ZIP)
    return None if kind is None else f"{kind[0]}. {kind[1]}"
