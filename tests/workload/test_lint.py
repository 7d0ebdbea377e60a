import pytest

from farm.workload.lint import lint
from farm.workload.model import DdWorkload, FioWorkload

SOUND_FIO = {"name": "x", "tool": "fio", "rw": "read", "bs": "1M", "size": "64M", "runtime": 5, "ramp": 1}
SOUND_DD = {"name": "x", "tool": "dd", "rw": "read", "bs": "1M", "size": "64M"}
GIB = 1024**3


def codes(w, **facts):
    return {found.code for found in lint(w, **facts)}


def fio(**values):
    return FioWorkload(**{**SOUND_FIO, **values})


def dd(**values):
    return DdWorkload(**{**SOUND_DD, **values})


def test_nothing_is_said_of_sound_workloads():
    assert lint(fio()) == ()
    assert lint(dd(), memory_bytes=GIB, governor="performance", cache_bytes=1024) == ()
    assert lint(fio(rw="randwrite", conditioning={"prefill": True}), cache_bytes=1024) == ()
    assert lint(fio(iodepth=32, ioengine="libaio", numjobs=4, offset_increment="64M")) == ()


@pytest.mark.parametrize(
    ("w", "facts", "code"),
    [
        (fio(iodepth=2), {}, "depth-without-async-engine"),
        (fio(iodepth=64, ioengine="sync"), {}, "depth-without-async-engine"),
        (fio(iodepth=4, ioengine="libaio", direct=False), {}, "depth-without-direct"),
        (fio(numjobs=2), {}, "jobs-share-range"),
        (fio(numjobs=2, offset_increment="1M"), {}, "jobs-share-range"),
        (fio(ramp=0), {}, "no-ramp"),
        (fio(rw="write"), {}, "write-without-prefill"),
        (dd(rw="write", fsync=True), {}, "write-without-prefill"),
        (fio(rw="write", direct=False, end_fsync=False), {}, "buffered-write-without-fsync"),
        (dd(rw="write"), {}, "buffered-write-without-fsync"),
        (dd(bs=512), {}, "dd-512-byte-blocks"),
        (dd(conditioning={"drop_caches": False}), {}, "caches-not-dropped"),
        (dd(conditioning={"drop_caches": False}), {"memory_bytes": GIB}, "size-below-memory"),
        (fio(direct=False), {"memory_bytes": GIB}, "size-below-memory"),
        (fio(size="1M"), {"cache_bytes": 1024 * 1024}, "size-below-cache"),
        (fio(), {"governor": "schedutil"}, "governor-not-fixed"),
        (fio(conditioning={"discard": True}), {}, "read-after-discard"),
    ],
)
def test_each_doubt_is_named(w, facts, code):
    assert code in codes(w, **facts)


def test_a_doubt_says_what_and_what_to_do():
    (found,) = lint(fio(iodepth=64))
    assert str(found) == (
        "depth-without-async-engine: iodepth 64 has no effect with psync, which is synchronous (fio's default is psync): "
        "each job has one request in flight; write ioengine: libaio or io_uring, or iodepth: 1"
    )


def test_what_is_read_once_after_dropping_caches_need_not_be_larger_than_memory():
    assert codes(dd(), memory_bytes=GIB) == set()


def test_trims_need_no_prefill():
    assert codes(fio(rw="trim")) == set()
