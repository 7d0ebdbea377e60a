"""farm: a board farm controller that says whether a kernel change makes eMMC/SD storage faster or slower."""

__version__ = "0.1.0"
