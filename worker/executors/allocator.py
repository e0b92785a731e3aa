"""Settings of the C library's allocator for a process that runs tasks."""

from __future__ import annotations

import ctypes
import logging

log = logging.getLogger(__name__)

# From malloc.h.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_LARGE = 8 << 20
_KEPT = 64 << 20


def keep_freed_memory() -> None:
    """Keeps some freed memory for the next batch, where the C library is glibc.

    By default, glibc returns freed memory to the system as soon as there are 128 KB, and the next batch gets it back page by
    page. With records of several kilobytes that takes longer than writing them.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return
    # Setting either one ends their adjustment to the sizes of freed blocks.
    if not (mallopt(_M_MMAP_THRESHOLD, _LARGE) and mallopt(_M_TRIM_THRESHOLD, _KEPT)):
        log.debug("The allocator keeps its settings")
