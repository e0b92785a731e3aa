"""Cookies of the web page: their names, and how browsers must treat them."""

from __future__ import annotations

from http.cookies import CookieError, SimpleCookie

SESSION_COOKIE = "sluice_session"
SIGN_IN_COOKIE = "sluice_sign_in"
_SECURE_PREFIX = "__Host-"
"""Browsers accept such a cookie only from https and for the whole host, so that no other host can set it."""


def set_cookie(name: str, value: str, max_age_s: int, *, is_secure: bool) -> str:
    """Returns a Set-Cookie header. Scripts cannot read the cookie, and other sites send it only when they open a link."""
    shown = f"{_SECURE_PREFIX}{name}" if is_secure else name
    return f"{shown}={value}; Path=/; Max-Age={max_age_s}; HttpOnly; SameSite=Lax{'; Secure' if is_secure else ''}"


def read_cookie(header: str, name: str) -> str | None:
    """Returns a cookie's value from a Cookie header, preferring the form for https."""
    if name not in header:
        return None
    try:
        cookies = SimpleCookie(header)
    except CookieError:
        return None
    found = cookies.get(f"{_SECURE_PREFIX}{name}") or cookies.get(name)
    return None if found is None else found.value
