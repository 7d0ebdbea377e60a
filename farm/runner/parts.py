"""Which images a variant consists of on a board."""

from __future__ import annotations

from farm.campaign import Variant
from farm.fleet.env import BoardEnv


def parts(board: BoardEnv, variant: Variant) -> dict[str, str]:
    """Names of images, or paths, by `kernel`, `initrd`, `dtb` and `modules`; what there is none of is left out.

    What the variant does not name comes from the golden image, but a variant with a kernel of its own gets no modules
    of the golden kernel.
    """
    golden = board.farm.golden
    own_kernel = variant.kernel is not None and variant.kernel != golden.kernel
    chosen = {
        "kernel": variant.kernel or golden.kernel,
        "initrd": variant.initrd or golden.initrd,
        "dtb": variant.dtb or golden.dtb,
        "modules": variant.modules or (None if own_kernel else golden.modules),
    }
    return {part: name for part, name in chosen.items() if name is not None}
