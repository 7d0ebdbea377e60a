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
import requests

import farm.runner.worker
from farm.memory import give_back, return_large

__all__ = ["encodings", "farm", "labgrid", "netrc", "pkgutil"]

# What requests asks of abstract classes when it is first used walks through all of their subclasses, writing to each; their
# answers are kept.
with requests.Session() as session:
    session.prepare_request(requests.Request("PUT", "http://127.0.0.1/", data=b"1"))

# The collector of a worker leaves alone what is here: its marks are written beside the objects, and each page that is
# written to is shared no more.
return_large()
give_back()
gc.freeze()
