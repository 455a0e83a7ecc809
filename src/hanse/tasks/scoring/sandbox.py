"""What a child takes away from itself before it runs code that nobody vouches for. Linux first; best effort.

Each function says whether its measure is in force; none raises where the system refuses it.
"""

from __future__ import annotations

import ctypes
import os
import resource
import select
import signal
import struct
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import NoReturn

_NEW_USER, _NEW_PID, _NEW_NET, _NEW_MOUNTS = 0x1000_0000, 0x2000_0000, 0x4000_0000, 0x0002_0000
_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE = 1, 4
_MS_REC, _MS_PRIVATE = 0x4000, 0x40000
_SYS_MOUNT_SETATTR, _AT_FDCWD, _AT_RECURSIVE, _READ_ONLY = 442, -100, 0x8000, 1
_FILE_BYTES = 64 << 20
_SCRATCH = "/dev/shm"

_libc = ctypes.CDLL(None, use_errno=True)


def limit(memory_mb: int, cpu_s: int | None = None) -> bool:
    """Address space, core files, file size, and (for a `cpu_s`) processor time. Inherited by all children."""
    wanted = [(resource.RLIMIT_CORE, 0), (resource.RLIMIT_FSIZE, _FILE_BYTES)]
    if cpu_s is not None:
        wanted.append((resource.RLIMIT_CPU, cpu_s))
    for which, value in [*wanted, (resource.RLIMIT_AS, memory_mb << 20)]:
        _, hard = resource.getrlimit(which)
        capped = value if hard == resource.RLIM_INFINITY else min(value, hard)
        try:
            resource.setrlimit(which, (capped, capped))
        except (OSError, ValueError):
            if which == resource.RLIMIT_AS:
                return False
    return True


def limit_processes(count: int) -> None:
    """At most `count` processes of this user in this namespace. The kernel exempts root."""
    try:
        resource.setrlimit(resource.RLIMIT_NPROC, (count, count))
    except (OSError, ValueError):
        return


def die_with_parent() -> None:
    """SIGKILL to this process when its parent ends, however it ends."""
    if sys.platform == "linux":
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def hide_memory(hidden: bool = True) -> None:
    """Other processes of the same user may not read this one's memory or open its descriptors.

    While hidden, a process of an ordinary user cannot enter namespaces.
    """
    if sys.platform == "linux":
        _libc.prctl(_PR_SET_DUMPABLE, 0 if hidden else 1, 0, 0, 0)


def address_space_mb() -> int:
    """What this process has mapped already, in MiB; 0 where that is unknown."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
    except OSError:
        return 0
    return pages * resource.getpagesize() >> 20


def probe() -> tuple[bool, bool]:
    """Whether own namespaces, and a read-only view of the files in them, are permitted: tried in a fork."""
    if sys.platform != "linux":
        return False, False
    pid = os.fork()
    if pid == 0:
        try:
            hide_memory(False)
            enter_namespaces()
            os._exit(0 if freeze_files() else 1)
        finally:
            os._exit(2)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return code in (0, 1), code == 0


def enter_namespaces() -> None:
    """New user, process, network (only a loopback that is down) and mount namespaces.

    The process namespace holds from the next fork on. Raises OSError where they are not permitted.
    """
    uid, gid = os.getuid(), os.getgid()
    if _libc.unshare(_NEW_USER | _NEW_PID | _NEW_NET | _NEW_MOUNTS) != 0:
        raise OSError(ctypes.get_errno(), "unshare")
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{uid} {uid} 1")
    Path("/proc/self/gid_map").write_text(f"{gid} {gid} 1")


def fork_as_init(close: Iterable[int]) -> None:
    """Go on in a fork that is the first of its process namespace: when it ends, all its descendants do.

    The caller's process closes the descriptors `close`, waits for the fork, and exits.
    """
    alive, held = os.pipe()
    pid = os.fork()
    if pid != 0:
        os.close(alive)
        for fd in close:
            os.close(fd)
        _wait_and_exit(pid)
    os.close(held)
    die_with_parent()
    if select.select([alive], [], [], 0)[0]:  # the parent died before it could be tied to it
        os._exit(1)
    os.close(alive)


def _wait_and_exit(pid: int) -> NoReturn:
    os.waitpid(pid, 0)
    os._exit(0)


def freeze_files() -> bool:
    """All mounts read-only, and a small scratch folder in memory as the current one."""
    attributes = struct.pack("QQQQ", _READ_ONLY, 0, 0, 0)
    if _libc.mount(None, b"/", None, _MS_REC | _MS_PRIVATE, None) != 0:
        return False
    frozen = _libc.syscall(
        _SYS_MOUNT_SETATTR, _AT_FDCWD, b"/", _AT_RECURSIVE, attributes, ctypes.c_size_t(len(attributes))
    )
    if frozen != 0:
        return False
    if _libc.mount(b"tmpfs", _SCRATCH.encode(), b"tmpfs", 0, b"size=16m") == 0:
        os.chdir(_SCRATCH)
    return True
