"""Character sets; compared with a server in tests/integration/mysql/test_charsets.py."""

from __future__ import annotations

import pytest

from connect.errors import DataError
from connect.generated_code import evaluate
from connectors.mysql.types.charsets import find_charset


@pytest.mark.parametrize(
    ("name", "text", "data"),
    [
        ("utf8", "ü", b"\xc3\xbc"),
        ("UTF8MB4", "𝄞", "𝄞".encode()),
        ("latin1", "é€\x81", b"\xe9\x80\x81"),
        ("latin2", "ł", b"\xb3"),
        ("ucs2", "é", b"\0\xe9"),
        ("utf16", "𝄞", b"\xd8\x34\xdd\x1e"),
        ("utf16le", "é", b"\xe9\0"),
        ("utf32", "é", b"\0\0\0\xe9"),
        ("sjis", "製", b"\x90\xbb"),
        ("cp932", "①", b"\x87\x40"),
        ("ujis", "製", b"\xc0\xbd"),
        ("euckr", "갂", b"\x81\x41"),
        ("big5", "產", b"\xb2\xa3"),
        ("gb18030", "𝄞", "𝄞".encode("gb18030")),
        ("binary", "\xff", b"\xff"),
    ],
)
def test_texts_are_decoded(name: str, text: str, data: bytes) -> None:
    charset = find_charset(name)
    assert charset.decode(data) == text
    inline = charset.inline or "{c}({x})"
    decode = evaluate(f"lambda x: {inline.format(x='x', c='c')}", {"c": charset.decode}, title="test")
    assert decode(data) == text
    if charset.inline:
        assert decode(b"ascii \x01") == "ascii \x01"


def test_unknown_character_set_is_refused() -> None:
    with pytest.raises(DataError, match="the character set dec8 cannot be decoded"):
        find_charset("dec8")
