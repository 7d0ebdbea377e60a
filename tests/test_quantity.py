import pytest
from hypothesis import given
from hypothesis import strategies as st

from farm import quantity


@pytest.mark.parametrize(
    ("written", "inside"),
    [
        ("4k", 4096),
        ("4K", 4096),
        ("4KiB", 4096),
        ("512M", 536870912),
        ("1G", 1073741824),
        (4096, 4096),
        ("1000", 1000),
        ("1.5M", 1572864),
        ("1g", 1073741824),
        ("0", 0),
    ],
)
def test_sizes_are_1024_based_as_in_fio(written, inside):
    assert quantity.parse_size(written) == inside


@pytest.mark.parametrize(
    "written",
    [
        "",
        "k",
        "4 kilo",
        "4x",
        "4 k k",
        "1e3",
        "٣k",
        "0.3k",
        "-4k",
        -1,
        True,
        None,
        [],
        {},
        0.5,
        "0.5",
        "9" * 400,
        "9" * 6000,
        "1025T",
        "9999999999t",
        2**60,
        "nan",
    ],
)
def test_what_is_no_size_is_a_value_error(written):
    with pytest.raises(ValueError, match=r"size|whole number|card|digits"):
        quantity.parse_size(written)


@pytest.mark.parametrize(
    ("written", "seconds"),
    [("5s", 5.0), (5, 5.0), (0.5, 0.5), ("500ms", 0.5), ("2min", 120.0), ("2m", 120), ("1h", 3600)],
)
def test_durations(written, seconds):
    assert quantity.duration(written) == seconds


@pytest.mark.parametrize("written", ["", "soon", "-1s", -1, True, None, [1], "1 year", "inf", "1e9"])
def test_what_is_no_duration_is_a_value_error(written):
    with pytest.raises(ValueError, match="is not a time"):
        quantity.duration(written)


@pytest.mark.parametrize(
    ("written", "fraction"), [("3%", 0.03), (0.03, 0.03), ("0.5 %", 0.005), ("0.03", 0.03)]
)
def test_shares(written, fraction):
    assert quantity.share(written) == fraction


@pytest.mark.parametrize("written", [3, 0, "0%", "100%", 1, "-3%", True, None, "three", "3%%"])
def test_what_is_no_share_is_a_value_error(written):
    with pytest.raises(ValueError, match=r"3% or 0.03"):
        quantity.share(written)


@pytest.mark.parametrize(
    ("value", "word"),
    [
        (4096, "4k"),
        (512, "512"),
        (536870912, "512M"),
        (2**32, "4G"),
        (1536, "1536"),
        (1572864, "1536k"),
        (0, "0"),
    ],
)
def test_the_shortest_word_for_a_size(value, word):
    assert quantity.short_size(value) == word


@given(st.integers(min_value=0, max_value=2**49))
def test_a_short_size_is_read_back_as_it_was(value):
    assert quantity.parse_size(quantity.short_size(value)) == value
