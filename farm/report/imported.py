"""`farm import` for people: what was found in each file, in which unit, and what was not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from rich.console import Console

from farm.report.figures import one_line
from farm.units import format_rate


def print_imported(read: Iterable[Mapping[str, Any]], out: Console) -> None:
    """One block per file: samples, facts, problems. Control characters of the text are written out."""

    def line(text: str) -> None:
        out.print(text, markup=False, highlight=False, soft_wrap=True)

    for one in read:
        line(f"{one_line(str(one['file']))}: {len(one['samples'])} samples")
        for number, sample in enumerate(one["samples"], 1):
            words = [f"{number:>3}", str(sample["tool"]), str(sample["rw"] or "?"), str(sample["job"] or "")]
            if sample["bw_bytes"] is not None:
                words.append(format_rate(sample["bw_bytes"]))
            if sample["bytes"] is not None and sample["seconds"] is not None:
                words.append(f"({sample['bytes']} bytes in {sample['seconds']:g} s)")
            if sample["iops"] is not None:
                words.append(f"{sample['iops']:.0f} IOPS")
            line("  " + one_line(" ".join(word for word in words if word)))
        for name, value in one["facts"].items():
            line(f"  {one_line(str(name))}: {one_line(str(value))[:200]}")
        for problem in one["problems"]:
            line(f"  problem {problem['code']}: {one_line(str(problem['message']))}")
