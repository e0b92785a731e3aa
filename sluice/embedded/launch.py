"""Script between fork and exec: sets a server's parent death signal, drops root rights, and then executes the server.

It runs by path in the bare interpreter and is never imported, so it uses only the standard library. Arguments: ``PARENT_PID
SIGNAL USER COMMAND...``; ``0`` for PARENT_PID sets no death signal, ``-`` for USER keeps the user. exec keeps the PID, so the PID
that the caller knows is the server's.
"""

from __future__ import annotations

import ctypes
import os
import pwd
import sys

PR_SET_PDEATHSIG = 1
PR_SET_KEEPCAPS = 8
PR_CAP_AMBIENT = 47
PR_CAP_AMBIENT_RAISE = 2
CAP_DAC_OVERRIDE = 1
CAP_DAC_READ_SEARCH = 2
CAPABILITY_VERSION_3 = 0x20080522


class _Header(ctypes.Structure):
    _fields_ = [("version", ctypes.c_uint32), ("pid", ctypes.c_int)]


class _Data(ctypes.Structure):
    _fields_ = [("effective", ctypes.c_uint32), ("permitted", ctypes.c_uint32), ("inheritable", ctypes.c_uint32)]


def main(arguments: list[str]) -> None:
    parent, death_signal, user, command = int(arguments[0]), int(arguments[1]), arguments[2], arguments[3:]
    linux = sys.platform == "linux"
    if user != "-":
        become(user, linux)
    if parent and linux:
        # After the change of user, which clears the death signal.
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, death_signal, 0, 0, 0)
        if os.getppid() != parent:  # it ended before the setting took effect
            sys.exit(1)
    os.execv(command[0], command)


def become(user: str, linux: bool) -> None:
    """Switches to ``user`` permanently, keeping only the capability to traverse directories that only root may enter.

    PostgreSQL refuses to run as root, but root's checkout and data may be below directories like ``/root`` that no other user may
    enter. Changing their permissions would be permanent; the capability ends with the process.
    """
    entry = pwd.getpwnam(user)
    libc = ctypes.CDLL(None, use_errno=True) if linux else None
    if libc is not None:
        libc.prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0)
    os.setgroups([])
    os.setgid(entry.pw_gid)
    os.setuid(entry.pw_uid)
    if libc is not None:
        # Containers usually grant DAC_OVERRIDE but not the narrower READ_SEARCH. With neither, directories must be accessible.
        for capability in (CAP_DAC_READ_SEARCH, CAP_DAC_OVERRIDE):
            if _keep(libc, capability):
                break


def _keep(libc: ctypes.CDLL, capability: int) -> bool:
    data = (_Data * 2)()
    data[0] = _Data(1 << capability, 1 << capability, 1 << capability)
    if libc.capset(ctypes.byref(_Header(CAPABILITY_VERSION_3, 0)), data) != 0:
        return False
    return bool(libc.prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, capability, 0, 0) == 0)


if __name__ == "__main__":
    main(sys.argv[1:])
