"""Locks of a spool: taken by one, and not kept from it by those that only ask."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from connect.errors import ConfigError
from connect.spool.locks import WRITER, SpoolLock


def test_lock_is_taken_while_others_ask_whether_it_is_free(tmp_path: Path) -> None:
    lock, stop = SpoolLock(tmp_path, WRITER), threading.Event()
    lock.take()
    lock.release()

    def ask() -> None:
        asking = SpoolLock(tmp_path, WRITER)
        while not stop.is_set():
            asking.is_free()

    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(200):
            lock.take()
            assert not SpoolLock(tmp_path, WRITER).is_free()
            lock.release()
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert lock.is_free()


def test_lock_of_another_is_refused_by_the_name_of_its_holder(tmp_path: Path) -> None:
    holder = SpoolLock(tmp_path, WRITER)
    holder.take()
    with pytest.raises(ConfigError, match=r"the spool has another writer \(process \d+ on host .+\)\. Stop that one"):
        SpoolLock(tmp_path, WRITER).take()
    holder.release()
    holder.take()
    holder.release()
