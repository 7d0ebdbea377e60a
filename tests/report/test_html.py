"""The HTML report in a real browser: everything readable at two widths, nothing loaded, hostile text harmless."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest
from rich.console import Console

from farm.report import html, terminal
from farm.report.study import latencies, study
from farm.store.db import Store
from farm.store.records import BootRecord, RunRecord, SampleRecord, TrialRecord
from tests.browser import Browser

# Boots in ABBA order; bandwidths in MB/s by board and variant, typed so that the medians are 100, 110, 90 and 100.
MEASURED = {
    ("virt-a", "ra128"): [99.8, 100.2, 99.9, 100.1, 100.0, 100.0],
    ("virt-a", "ra1024"): [109.8, 110.2, 109.9, 110.1, 110.0, 110.0],
    ("virt-b", "ra128"): [99.8, 100.2, 99.9, 100.1, 100.0, 100.0],
    ("virt-b", "ra1024"): [89.8, 90.2, 89.9, 90.1, 90.0, 90.0],
}
ORDER = ["ra128", "ra1024", "ra1024", "ra128"] * 3
WORKLOAD = "randread-512k-qd128-j16-libaio-buffered-with-a-rather-long-name-1"
CONTROL = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\ud800-\udfff]")
HOSTILE = "\x1b[2J\x00<script>document.title='owned'</script><img src=http://127.0.0.1:9/x>\"'&\u202e{{7*7}}"


def boot(
    run: str, board: str, index: int, variant: str, *trials: TrialRecord, status: str = "ok", reason: str = ""
) -> BootRecord:
    facts = {
        "banner": f"Linux version 6.12-{variant} (farm@host)",
        "ios.timing": "mmc HS200",
        "ios.width_bits": 8,
        "ios.clock_hz": 200_000_000,
        "card.name": "KLMBG2" if board == "virt-a" else "DG4016",
        "card.cid": "150100" + "ab" * 13,
        "read_ahead_kb": 128 if variant == "ra128" else 1024,
    }
    return BootRecord(
        run,
        board,
        index,
        index // 4,
        variant,
        0,
        status,
        reason,
        60.0 * index,
        60.0 * index + 50,
        facts=facts,
        trials=trials,
    )  # type: ignore[arg-type]


@pytest.fixture
def disagreeing(store: Store) -> Store:
    """Two boards that disagree about a change, a void trial, a board's failed boot, and a second workload."""
    settings = {
        "baseline": "ra128",
        "variants": ["ra128", "ra1024"],
        "workloads": [WORKLOAD, "dd-read-4k"],
        "socs": {"virt-a": "RK3568 (virtual twin)", "virt-b": "MT8395"},
        "synthetic": {"virt-a": "emulated by QEMU"},
    }
    store.begin_run(RunRecord("demo", "readahead", "", 7, 0.0, settings=settings))
    for board in ("virt-a", "virt-b"):
        left = {variant: list(MEASURED[board, variant]) for variant in ("ra128", "ra1024")}
        for index, variant in enumerate(ORDER):
            value = left[variant].pop(0) * 1e6
            samples = (
                SampleRecord("read", "bw_bytes", value),
                SampleRecord("read", "lat_p50_ns", 4e12 / value),
                SampleRecord("read", "lat_p99_ns", 9e12 / value),
            )
            dd = TrialRecord(
                "dd-read-4k",
                0,
                "ok",
                "",
                "dd if=/dev/mmcblk0",
                0.0,
                1.0,
                (SampleRecord("read", "bw_bytes", 5e7),),
            )
            if index == 4:  # the baseline: an outcome of the candidate alone would withhold its `faster`
                dd = TrialRecord(
                    "dd-read-4k", 0, "void", "ran 0.08 s, shorter than its floor", "dd", 0.0, 0.1
                )
            store.commit_boot(
                boot(
                    "demo",
                    board,
                    index,
                    variant,
                    TrialRecord(WORKLOAD, 0, "ok", "", "fio", 0.0, 1.0, samples),
                    dd,
                )
            )
    store.commit_boot(boot("demo", "virt-b", 12, "ra128", status="failed", reason="kernel panic"))
    store.finish_run("demo", "done", ended=900.0)
    return store


def page_of(store: Store, run: str, file: Path) -> str:
    found = study(store, run)
    text = html.page(found, latencies(store, found))
    file.write_text(text, encoding="utf-8")
    return text


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with Browser() as one:
        yield one


# Every element whose text a reader needs: all of its box has to lie within the window, and have a size.
OUTSIDE = """
const bad = [];
for (const e of document.querySelectorAll('h1,h2,h3,p,li,dt,dd,span,b,small,div.cell,div.cell div,pre,svg,text')) {
  if (!e.textContent.trim()) continue;
  const r = e.getBoundingClientRect();
  if (r.width === 0 || r.height === 0 || r.left < -0.5 || r.right > innerWidth + 0.5) bad.push(e.tagName + ' ' + e.textContent.slice(0, 40));
}
return bad;
"""


@pytest.mark.parametrize("width", [1280, 390])
def test_everything_can_be_read_without_scrolling_sideways(
    disagreeing: Store, tmp_path: Path, browser: Browser, width: int
) -> None:
    page_of(disagreeing, "demo", tmp_path / "run.html")
    browser.open(tmp_path / "run.html", width)
    assert browser.run("return innerWidth") == width
    assert browser.run("return document.scrollingElement.scrollWidth") <= width
    assert browser.run(OUTSIDE) == []
    text = browser.run("return document.body.innerText")
    for cell, sign, verdict, ratio, median in (
        ("virt-a: ra1024", "▲", "faster", "1.100", "110 MB/s"),
        ("virt-b: ra1024", "▼", "slower", "0.900", "90 MB/s"),
    ):
        (said,) = re.findall(rf"^{sign} {verdict}\s+{cell}\s+change × {ratio}, 95 % interval (\S+) \.\. (\S+), n 6/6\s+"
                             rf"100 MB/s.*?\s{median}", text, re.MULTILINE | re.DOTALL)[:1]  # fmt: skip
        assert float(said[0]) < float(ratio) < float(said[1])
    assert "50 % of the bus" in text and "55 % of the bus" in text  # 100 and 110 of 200 MB/s
    assert "boards disagree about 1 of 2" in text and "the boards disagree: faster on virt-a" in text
    assert "KLMBG2" in text and "DG4016" in text
    assert "kernel panic" in text and "shorter than its floor" in text
    assert "≠ read_ahead_kb" in text
    assert browser.complaints() == []
    assert [url for url in browser.requested() if not url.startswith(("file:", "data:"))] == []


def test_the_plots_show_every_boot(disagreeing: Store, tmp_path: Path) -> None:
    text = page_of(disagreeing, "demo", tmp_path / "run.html")
    plots = re.findall(r'<svg class="p"[^>]*aria-label="([^"]*)">(.*?)</svg>', text, re.DOTALL)
    dots = [body for label, body in plots if label.startswith(WORKLOAD) and "every boot" in label]
    assert len(dots) == 2
    for body in dots:
        discs, squares = (
            re.findall(rf'<path d="([^"]*)" fill="{colour}"', body) for colour in ("#0072B2", "#D55E00")
        )
        assert [path.count("M") for path in (*discs, *squares)] == [6, 6]
    assert sum("boots in order" in label for label, _ in plots) == 4
    assert sum("latency percentiles" in label for label, _ in plots) == 2  # dd tells no latencies
    assert re.search(r">p50<.*>p99<", "".join(body for label, body in plots if "latency" in label))


class Elements(HTMLParser):
    """Names of all elements and attributes that a parser sees."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}


def test_a_hostile_board_reaches_nobody(store: Store, tmp_path: Path, browser: Browser) -> None:
    """Every text of a run tries to be markup, and one trial printed 50 MB of it."""
    bad = HOSTILE
    flood = (bad.encode("utf-8", "surrogatepass") + b"\xff\r\n") * (50_000_000 // len(bad) + 1)
    settings = {"baseline": "a" + bad, "variants": ["a" + bad, "b" + bad], "socs": {"x" + bad: bad}}
    store.begin_run(RunRecord("evil" + bad, bad, bad, 1, 1e300, note=bad, settings=settings))
    for index, variant in enumerate("abba"):
        sample = SampleRecord("r" + bad, "bw_bytes", 5e6 + index)
        trials = (
            TrialRecord("w" + bad, 0, "ok", "", "fio " + bad, 0.0, 1.0, (sample,), {"out": flood if index == 0 else b""}, facts={"fio_version": bad, "lint": [{"code": bad, "message": bad, "remedy": bad}, bad]}),
            TrialRecord("v" + bad, 0, "void", bad, bad, 0.0, 1.0),
        )  # fmt: skip
        store.commit_boot(
            BootRecord(
                "evil" + bad, "x" + bad, index, 0, variant + bad, 0, "ok", "", 60.0 * index, 1.0,
                facts={bad: [bad], "banner": bad, "card.name": bad, "ios.timing": bad, "ios.clock_hz": bad, "temperature_c": bad},
                events=({"kind": bad, "line": bad},), trials=trials,
            )
        )  # fmt: skip
    for show in (
        lambda out: terminal.print_study(study(store, "latest"), out),
        lambda out: terminal.print_trial(store, 1, out),
    ):
        told = io.StringIO()
        show(Console(file=told))
        assert "^[[2J" in told.getvalue() and not CONTROL.search(told.getvalue())
        assert len(told.getvalue()) < 2_000_000  # the first megabyte, escapes written out
    text = page_of(store, "latest", tmp_path / "run.html")
    assert len(text) < 200_000
    assert not CONTROL.search(text)
    seen = Elements()
    seen.feed(text)
    assert not seen.tags & {"script", "img", "iframe", "object", "embed", "a", "form", "base"}
    assert not {
        name for name in seen.attributes if name.startswith("on") or name in ("src", "srcdoc", "action")
    }
    assert "49" not in re.findall(r"\{\{7\*7\}\}|\b49\b", text)  # no template ran on it
    browser.open(tmp_path / "run.html", 390)
    assert browser.run("return document.title") != "owned"
    assert browser.run("return document.scrollingElement.scrollWidth") <= 390
    assert browser.complaints() == []
    assert [url for url in browser.requested() if not url.startswith(("file:", "data:"))] == []


def test_forty_boots_of_sixteen_workloads_are_below_a_megabyte(store: Store, tmp_path: Path) -> None:
    names = [f"randread-4k-qd{1 << n % 6}-j{n}" for n in range(16)]
    settings = {"baseline": "ra128", "variants": ["ra128", "ra1024"], "workloads": names}
    store.begin_run(RunRecord("big", "readahead", "", 7, 0.0, settings=settings))
    for index in range(40):
        value = 50e6 * (1 + index % 7 / 100)
        samples = tuple(
            SampleRecord("read", metric, value)
            for metric in ("bw_bytes", "lat_p50_ns", "lat_p99_ns", "lat_p99.9_ns")
        )
        trials = [TrialRecord(name, 0, "ok", "", "fio " + "x" * 200, 0.0, 1.0, samples) for name in names]
        store.commit_boot(boot("big", "virt-a", index, ORDER[index % 4], *trials))
    assert len(page_of(store, "big", tmp_path / "run.html").encode()) < 1_000_000
