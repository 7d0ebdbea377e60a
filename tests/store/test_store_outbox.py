"""What a sender does with the outbox besides marking rows."""

from __future__ import annotations

from collections.abc import Callable

from farm.store.db import Store
from farm.store.records import BootRecord, RunRecord


def test_a_rendered_body_is_kept_and_survives_a_requeue(
    store: Store, run: RunRecord, make_boot: Callable[..., BootRecord]
) -> None:
    store.begin_run(run)
    store.commit_boot(make_boot(0))
    store.commit_boot(make_boot(1))
    first, second = store.outbox.waiting()
    assert (first.body, second.body) == (None, None)
    store.outbox.fill({first.id: b"\x00 rendered", second.id: b""})
    assert [row.body for row in store.outbox.waiting()] == [b"\x00 rendered", b""]
    store.outbox.mark_sent([first.id])
    store.outbox.requeue()
    assert [row.body for row in store.outbox.waiting()] == [b"\x00 rendered", b""]


def test_rows_are_counted_by_what_became_of_them(store: Store) -> None:
    assert store.outbox.tally() == (0, 0)
    for number in range(5):
        store.outbox.put("board", b"%d" % number)
    ids = [row.id for row in store.outbox.waiting()]
    store.outbox.mark_sent(ids[:1])
    store.outbox.mark_refused(ids[1], "field type conflict")
    store.outbox.mark_refused(ids[2], "points beyond retention policy")
    assert store.outbox.tally() == (2, 2)
    store.outbox.requeue()
    assert store.outbox.tally() == (5, 0)
