"""Errors as text for logs, statuses, and dead letters."""

from __future__ import annotations

from connect.errors import ConnectError


def describe(error: BaseException) -> str:
    """Returns the error as a line: its message, with its class if that adds information. Never raises."""
    if isinstance(error, ConnectError) and error.message:
        return encodable(error.message)
    text = text_of(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def text_of(error: BaseException) -> str:
    """Returns ``str(error)``, which may fail."""
    try:
        return encodable(str(error))
    except Exception as e:
        return f"(no message: str() raised {type(e).__name__})"


def encodable(text: str) -> str:
    """Returns the text in a form that UTF-8 can encode: surrogates, as in file names that are not text, are escaped."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
