"""Lines of a batch: what is right is read, whatever a board or a console makes of them is not."""

from __future__ import annotations

import bz2
import gzip
import lzma

import pytest
from hypothesis import given
from hypothesis import strategies as st

from farm.board.batch import Job, read_stream
from farm.board.frames import (
    Assembly,
    Damaged,
    Frame,
    Manifest,
    decode,
    digest,
    read_frame,
    read_manifest,
    unpack,
    verified,
)


@pytest.mark.parametrize(
    ("tool", "data", "expected"),
    [
        # FIPS 180-4 and RFC 1321 examples; POSIX cksum of nothing and of 123456789
        ("sha256sum", b"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
        ("md5sum", b"abc", "900150983cd24fb0d6963f7d28e17f72"),
        ("cksum", b"", "4294967295"),
        ("cksum", b"123456789", "930766865"),
    ],
)
def test_digests_are_those_of_the_tools(tool: str, data: bytes, expected: str) -> None:
    assert digest(data, tool) == expected


def line(body: bytes, tool: str = "sha256sum", behind: bytes = b"  -") -> bytes:
    return body + b" " + digest(body + b"\n", tool).encode() + behind


@pytest.mark.parametrize(
    "behind", [b"  -", b"", b"  -[   12.3] mmc0: error", b"  - 0123456789abcdef0123456789abcdef"]
)
def test_noise_behind_a_digest_does_no_harm(behind: bytes) -> None:
    assert verified(line(b"0 3 YWJj", behind=behind), "sha256sum") == b"0 3 YWJj"


def test_cksum_and_its_length() -> None:
    assert verified(line(b"0 3 YWJj", "cksum", b" 9"), "cksum") == b"0 3 YWJj"


@pytest.mark.parametrize(
    ("body", "encoder", "expected"),
    [
        (b"0 3 YWJj", "base64", Frame(0, b"abc")),
        (b"2304 3 begin-base64644-YWJj====", "uuencode", Frame(2304, b"abc")),
        (b"2304 1 begin-base64600-YQ======", "uuencode", Frame(2304, b"a")),
        (b"7 4 00ff1b0a", "od", Frame(7, b"\x00\xff\x1b\n")),
    ],
)
def test_frames_of_all_encoders(body: bytes, encoder: str, expected: Frame) -> None:
    assert read_frame(body, encoder) == expected


@pytest.mark.parametrize(
    "body", [b"0 4 YWJj", b"0 3 YWJj!", b"-1 3 YWJj", b"0 3", b"", b"0 3 YWJj x", b"0 3 YWJ\xff"]
)
def test_frames_that_are_none(body: bytes) -> None:
    with pytest.raises(Damaged):
        read_frame(body, "base64")


def test_a_manifest() -> None:
    body = b"= 3772 xz 1 /tmp/farm.17 " + b"ab" * 32 + b" -"
    assert read_manifest(body) == Manifest(3772, "xz", "1", "/tmp/farm.17", "ab" * 32)


@pytest.mark.parametrize(
    "body", [b"= x xz 1 /tmp a", b"= 1 xz 1 /tmp", b"! 1 xz 1 /tmp a", b"= 1 xz 1 /t\x1b[2J a", b"="]
)
def test_manifests_that_are_none(body: bytes) -> None:
    with pytest.raises(Damaged):
        read_manifest(body)


@given(st.binary(max_size=300), st.sampled_from(["sha256sum", "md5sum", "cksum"]))
def test_hostile_lines_are_damaged_and_nothing_else(text: bytes, tool: str) -> None:
    with pytest.raises(Damaged):
        verified(text, tool)


@given(st.binary(max_size=200), st.sampled_from(["base64", "uuencode", "od"]))
def test_hostile_texts_are_frames_of_their_length_or_damaged(text: bytes, encoder: str) -> None:
    for body in (text, b"0 3 " + text):
        try:
            frame = read_frame(body, encoder)
        except Damaged:
            continue
        assert len(frame.data) == int(body.split()[1])
    try:
        read_manifest(b"= 1 " + text)
        decode(text, encoder)
    except Damaged:
        pass


@given(st.binary(min_size=1, max_size=200), st.integers(0, 10**6), st.data())
def test_no_change_of_one_byte_passes(payload: bytes, offset: int, data: st.DataObject) -> None:
    import base64

    text = line(b"%d %d %s" % (offset, len(payload), base64.b64encode(payload)), behind=b"")
    at = data.draw(st.integers(0, len(text) - 1))
    changed = text[:at] + bytes([text[at] ^ data.draw(st.integers(1, 255))]) + text[at + 1 :]
    with pytest.raises(Damaged):
        verified(changed, "sha256sum")


@given(st.binary(max_size=400), st.lists(st.tuples(st.integers(0, 400), st.integers(1, 120))))
def test_frames_in_any_order_and_overlap_make_the_stream(stream: bytes, cuts: list[tuple[int, int]]) -> None:
    assembly = Assembly(len(stream))
    for offset, length in cuts:
        assembly.add(Frame(offset, stream[offset : offset + length]))
    while gap := assembly.gap():
        offset, length = gap
        assert stream[offset : offset + length]
        assembly.add(Frame(offset, stream[offset : offset + min(50, length)]))
    assert assembly.join() == stream


def test_a_frame_beyond_the_end_is_not_taken() -> None:
    assembly = Assembly(3)
    assembly.add(Frame(2, b"xy"))
    assert assembly.gap() == (0, 3)


PACKED = {
    "gzip": gzip.compress(b"text" * 99),
    "bzip2": bz2.compress(b"text" * 99),
    "xz": lzma.compress(b"text" * 99),
}


@pytest.mark.parametrize("compression", sorted(PACKED))
def test_packed_streams(compression: str) -> None:
    packed = PACKED[compression]
    assert unpack(packed, compression, 396) == b"text" * 99
    for wrong, limit in ((packed[:-9], 396), (packed, 395), (b"\0" + packed, 396), (b"", 396)):
        with pytest.raises(Damaged):
            unpack(wrong, compression, limit)


def test_a_bomb_is_not_unpacked() -> None:
    bomb = bz2.compress(bytes(9 << 20))
    with pytest.raises(Damaged, match="more than 1000 bytes come out of"):
        unpack(bomb, "bzip2", 1000)


def test_an_unknown_compression() -> None:
    with pytest.raises(Damaged, match="unknown compression zip"):
        unpack(b"", "zip", 9)


def test_a_stream_by_hand() -> None:
    stream = (
        b"0 100.25 105.50 .\n143 110.00 112.00 .c\n7 0 0 .\n- 0 0 .a\n"
        b" 2 k100001a\n 3 k100001b\n 4 k100001c\n 3 k100001d\n 5 k100001e\n"
        b" 6 k100002c\n 0 k100002e\n4 k100003a\n0 k100004a\n 27 total\n.\n"
        b"AAbbbccccdddEEEEE" + b"123456" + b"oops"
    )
    jobs = [
        Job("one", "x"),
        Job("two", "x"),
        Job("three", "x", ("y",)),
        Job("four", "x", ("y",), before_timeout_s=5.0),
    ]
    one, two, three, four = read_stream(stream, jobs, limit=5)
    assert (one.rc, one.started, one.seconds, one.timed_out) == (0, 100.25, 5.25, False)
    assert one.raw == {"before": b"AA", "pre": b"bbb", "out": b"cccc", "post": b"ddd", "kernel": b"EEEEE"}
    assert (two.rc, two.seconds, two.timed_out, two.raw, two.cut) == (
        143,
        2.0,
        True,
        {"out": b"12345"},
        {"out"},
    )
    assert (three.rc, three.raw) == (7, {"before": b"oops"})
    assert three.skipped == "a line before it failed with exit status 7"
    assert (four.rc, four.skipped) == (None, "the lines before it did not end within 5 s")


@pytest.mark.parametrize(
    "stream",
    [
        b"",
        b"0 1.00 2.00 .\n",
        b"0 1.00 2.00 .\n3 k100001c\n.\n",
        b"0 1.00 2.00 .\n3 k100001c\n.\nab",
        b"0 1.00 2.00 .\n3 k100001c\n.\nabcd",
        b"0 1.00 2.00 .\n3 k100001f\n.\nabc",
        b"0 1.00 2.00 .\n3 k100002c\n.\nabc",
        b"0 1.00 2.00 .\n3 k100000c\n.\nabc",
        b"0 1.00 2.00 .\n2 k100001c\n1 k100001c\n.\nabc",
        b"0 1.00 2.00 .\n2 k100001c\n1 k100001b\n.\nabc",
        b"0 1.00 2.00 .x\n3 k100001c\n.\nabc",
        b"0 1.00 nan .\n3 k100001c\n.\nabc",
        b"0 1.00 2.00 .\n\n.\nabc",
        b"\xff" * 50 + b"\n",
    ],
)
def test_streams_that_are_none(stream: bytes) -> None:
    with pytest.raises(Damaged):
        read_stream(stream, [Job("a", "x")], limit=99)


@given(st.binary(max_size=300))
def test_hostile_streams_are_damaged_and_nothing_else(stream: bytes) -> None:
    for text in (stream, b"0 1.00 2.00 .\n3 k100001c\n.\n" + stream):
        try:
            (job,) = read_stream(text, [Job("a", "x")], limit=99)
        except Damaged:
            continue
        assert job.raw["out"] == stream[:3]
