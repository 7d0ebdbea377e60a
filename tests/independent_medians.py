"""Both medians of every dd workload out of the raw text in the database, without any code of farm: DB [RUN]."""

import re
import sqlite3
import sys
import zlib
from collections import defaultdict
from statistics import median

UNITS = {"": 1, "k": 1024, "M": 1024**2, "G": 1024**3}
boots = defaultdict(
    lambda: defaultdict(list)
)  # (board, workload, variant) -> boot -> bytes/second of its trials
query = """SELECT board, workload, variant, boot.id, zlib FROM run JOIN boot ON boot.run_id = run.id
    JOIN trial ON boot_id = boot.id JOIN raw ON trial_id = trial.id
    WHERE run.id LIKE ? || '%' AND boot.status = 'ok' AND trial.status = 'ok' AND kind = 'out' AND command LIKE '%dd if=%'"""
for *key, boot, packed in sqlite3.connect(f"file:{sys.argv[1]}?mode=ro", uri=True).execute(
    query, (sys.argv[2:] or [""])[:1]
):
    text = zlib.decompress(packed).decode("utf-8", "replace")
    copied = re.search(r"(\d+) bytes .*copied, ([\d.e-]+) s", text)
    full = re.search(r"^(\d+)\+0 records out", text, re.M)
    size = re.search(r"^\+ dd .*\bbs=(\d+)([kMG]?)\b", text, re.M)
    real = re.search(r"real\s+(\d+)m\s*([\d.]+)s", text)
    moved = int(copied[1]) if copied else int(full[1]) * int(size[1]) * UNITS[size[2]]
    boots[tuple(key)][boot].append(
        moved / (float(copied[2]) if copied else 60 * int(real[1]) + float(real[2]))
    )
for (board, workload, variant), trials in sorted(boots.items()):
    print(
        f"{board} {workload} {variant} {median(map(median, trials.values())) / 1e6:.3f} MB/s over {len(trials)} boots"
    )
