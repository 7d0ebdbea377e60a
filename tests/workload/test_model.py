import pytest
from pydantic import TypeAdapter, ValidationError

from farm.workload.model import Conditioning, DdWorkload, FioWorkload, Workload

MIB = 1024 * 1024


def fio(**values):
    return FioWorkload(**{"name": "x", "tool": "fio", "rw": "read", "size": "64M", **values})


def dd(**values):
    return DdWorkload(**{"name": "x", "tool": "dd", "rw": "read", "bs": "1M", "size": "32M", **values})


def test_the_tool_decides_the_kind():
    adapter = TypeAdapter(Workload)
    assert isinstance(
        adapter.validate_python({"name": "a", "tool": "fio", "rw": "trim", "size": "1M"}), FioWorkload
    )
    assert isinstance(
        adapter.validate_python({"name": "a", "tool": "dd", "rw": "read", "size": 512}), DdWorkload
    )


def test_what_people_write_becomes_bytes_and_seconds():
    w = fio(bs="4k", runtime="1min", ramp="500ms", timeout="2min", floor=3, offset_increment="64M")
    assert (w.bs, w.size, w.runtime_s, w.ramp_s, w.timeout_s, w.floor_s, w.offset_increment) == (
        4096,
        64 * MIB,
        60.0,
        0.5,
        120.0,
        3.0,
        64 * MIB,
    )


def test_a_runtime_means_the_whole_runtime_unless_said_otherwise():
    assert fio(runtime=5).time_based
    assert not fio(runtime=5, time_based=False).time_based
    assert not fio().time_based


def test_floor_and_timeout_follow_from_the_run():
    timed = fio(runtime=10, ramp=2)
    assert timed.floor_s == pytest.approx(9.0)
    assert timed.timeout_s == 10 + 2 + 20
    assert fio(runtime=10, rw="write", direct=False).timeout_s == 10 + 60, "it ends with a flush"
    # 8 jobs of 512 MiB at 1 MB/s at worst
    assert fio(size="512M", numjobs=8).timeout_s == pytest.approx(8 * 512 * MIB / 1e6 + 60, abs=0.01)
    assert fio(size="4k").timeout_s == pytest.approx(60, abs=0.01)
    assert dd().floor_s == 0.1


def test_caches_are_dropped_for_what_goes_through_them():
    assert dd().drop_caches
    assert not dd(direct=True).drop_caches
    assert not fio().conditioning.drop_caches
    assert fio(direct=False).conditioning.drop_caches
    assert not dd(conditioning={"drop_caches": False, "idle": 1}).drop_caches
    assert dd(conditioning=Conditioning(prefill=True)).conditioning == Conditioning(
        prefill=True, drop_caches=True
    )


def test_only_what_changes_the_card_writes():
    assert [
        rw
        for rw in ("read", "write", "randread", "randwrite", "randrw", "trim", "randtrim")
        if fio(rw=rw).writes
    ] == [
        "write",
        "randwrite",
        "randrw",
        "trim",
        "randtrim",
    ]
    assert dd(rw="write").writes
    assert not dd().writes


def test_the_area_that_is_needed():
    assert fio(numjobs=4).needed_bytes == 64 * MIB
    assert fio(numjobs=4, offset_increment="64M").needed_bytes == 256 * MIB
    assert fio(numjobs=4, offset_increment="1M").needed_bytes == 67 * MIB
    assert dd().needed_bytes == 32 * MIB


def test_bytes_written_are_a_bound_or_unknown():
    assert fio(rw="read").bytes_written(5) == 0
    assert fio(rw="write", numjobs=3).bytes_written(5) == 5 * 3 * 64 * MIB
    timed = fio(rw="randwrite", runtime=2, ramp=1)
    assert timed.bytes_written(5) is None
    assert timed.bytes_written(5, 10e6) == 150_000_000
    assert dd(rw="write").bytes_written(5) == 5 * 32 * MIB
    assert dd().bytes_written(5) == 0


def test_expected_seconds():
    assert fio(runtime=2, ramp=1).seconds(1e6) == 3
    assert fio(size="1M", numjobs=2).seconds(MIB) == 2
    assert fio(size="1M", runtime=30, time_based=False).seconds(MIB) == 1
    assert dd(size="10M").seconds(MIB) == 10


def test_dd_counts_from_size_and_size_from_count():
    assert dd(bs="4k", size="1M").count == 256
    by_count = DdWorkload(name="x", tool="dd", rw="write", bs="4k", count=256)
    assert by_count.size == MIB
    assert DdWorkload(name="x", tool="dd", rw="read", size=1024).count == 2  # dd's own default, 512


def test_a_file_is_read_to_its_end_unless_counted():
    whole = dd(target="file", bs=512, size=2296521564)
    assert whole.whole_file
    assert whole.count is None
    part = dd(target="file", bs=512, size=2296521564, count=10)
    assert not part.whole_file
    assert part.count == 10


@pytest.mark.parametrize(
    ("make", "values", "said"),
    [
        (fio, {"rw": "reed"}, "read"),
        (fio, {"size": "1k"}, "size 1k is smaller than bs 4k"),
        (fio, {"time_based": True}, "time_based needs a runtime"),
        (fio, {"ramp": 1}, "ramp needs a runtime"),
        (fio, {"rw": "trim", "target": "file"}, "fio trims devices only"),
        (fio, {"size": 1000, "bs": 512}, "multiples of 512"),
        (fio, {"bs": 1000}, "bs has to be a multiple of 512 bytes with direct"),
        (fio, {"numjobs": 0}, "greater than or equal to 1"),
        (fio, {"numjobs": True}, "valid integer"),
        (fio, {"iodepth": "8"}, "valid integer"),
        (fio, {"rwmixread": 101}, "less than or equal to 100"),
        (fio, {"ioengine": "libai"}, "libaio"),
        (fio, {"bandwith": 1}, "not permitted"),
        (fio, {"timeout": 1, "floor": 1}, "floor is not below timeout"),
        (fio, {"runtime": 10, "timeout": 5}, "floor is not below timeout"),
        (fio, {"name": "a b"}, "pattern"),
        (fio, {"name": "-rf"}, "pattern"),
        (fio, {"target": "file", "conditioning": {"discard": True}}, "discard works on the raw target only"),
        (dd, {"size": "1.5k"}, "size is not a multiple of bs"),
        (dd, {"count": 31}, "leave one of count and size out"),
        (dd, {"target": "file", "count": 33}, "leave one of count and size out"),
        (dd, {"fsync": True}, "fsync belongs to rw: write"),
        (dd, {"target": "file", "direct": True, "size": 1000}, "multiple of 512 bytes with direct"),
        (dd, {"rw": "randread"}, "'read' or 'write'"),
        (dd, {"iodepth": 4}, "not permitted"),
    ],
)
def test_what_cannot_be_meant_is_refused(make, values, said):
    with pytest.raises(ValidationError, match=said):
        make(**values)


def test_a_workload_cannot_be_changed():
    with pytest.raises(ValidationError, match="frozen"):
        fio().bs = 512
