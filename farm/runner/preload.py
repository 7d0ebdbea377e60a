"""What the server of `forks` imports, once for all boards; nothing else imports this.

A worker is a fork of that server, so what is loaded here costs no time in it and shares its memory. No channel of gRPC
may be opened here: it would not survive the fork.
"""

import encodings.idna
import encodings.utf_8_sig
import gc
import netrc
import pkgutil

# These and the ones above are what labgrid and requests import when they are first used.
import labgrid.driver.power.rest

import farm.runner.worker

__all__ = ["encodings", "farm", "labgrid", "netrc", "pkgutil"]

# The collector of a worker leaves alone what is here: its marks are written beside the objects, and each page that is
# written to is shared no more.
gc.collect()
gc.freeze()
