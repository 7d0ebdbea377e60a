"""What the fork server imports, once for all boards; nothing else imports this.

A worker is a fork of that server, so what is loaded here costs no time in it and shares its memory. No channel of gRPC
may be opened here: it would not survive the fork.
"""

import encodings.idna
import gc
import netrc

# what labgrid's and requests' own functions import when they are first called
import labgrid.driver.power.rest

import farm.runner.worker

__all__ = ["encodings", "farm", "labgrid", "netrc"]

# The collector of a worker leaves alone what is here: its marks are written beside the objects, and each page that is
# written to is shared no more.
gc.collect()
gc.freeze()
