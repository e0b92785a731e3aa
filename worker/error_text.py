"""Errors as text for logs, statuses, and dead letters."""

from __future__ import annotations

from connect.errors import ConnectError


def describe(error: BaseException) -> str:
    """The error in a line: its message, with its class where that says more. Raises nothing, whatever the error's class does."""
    if isinstance(error, ConnectError) and error.message:
        return encodable(error.message)
    text = text_of(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def text_of(error: BaseException) -> str:
    """``str`` of an error, which its class may have spoiled."""
    try:
        return encodable(str(error))
    except Exception as e:
        return f"(its text cannot be had, for its class raises {type(e).__name__} instead)"


def encodable(text: str) -> str:
    """The text as it can be written as UTF-8: what stands in it for bytes that are no text, as in names of files, is escaped."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
