"""Memory that is freed goes back to the kernel: what lies idle in each process adds up over a hundred of them."""

from __future__ import annotations

import ctypes
import gc

_M_MMAP_THRESHOLD = -3  # of malloc.h
_LARGE = 64 << 10


def return_large() -> None:
    """From now on blocks of 64 KiB and more go back as soon as they are freed, in this process and its forks.

    Otherwise glibc raises its limit with every larger block that is freed, and keeps those below it (mallopt(3)). Other
    C libraries are left as they are.
    """
    if option := getattr(ctypes.CDLL(None), "mallopt", None):
        option(_M_MMAP_THRESHOLD, _LARGE)


def give_back() -> None:
    """Return what is free by now, where the C library can (malloc_trim(3)); takes about a millisecond."""
    gc.collect()
    if trim := getattr(ctypes.CDLL(None), "malloc_trim", None):
        trim(0)
