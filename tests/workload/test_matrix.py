from collections.abc import Sequence

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from farm import yamlfile
from farm.errors import UserError
from farm.workload import matrix


def expand(tmp_path, text, idle_s=0.0):
    path = tmp_path / "w.yaml"
    path.write_text("workloads:\n" + text)
    found = matrix.expand(yamlfile.read(path), ("workloads",), idle_s)
    return [workload for workload, _ in found]


def names(workloads: Sequence):
    return [w.name for w in workloads]


def wrong(tmp_path, text):
    with pytest.raises(UserError) as caught:
        expand(tmp_path, text)
    return str(caught.value).replace(str(tmp_path / "w.yaml"), "w")


def test_lists_multiply_in_the_order_of_the_file(tmp_path):
    found = expand(tmp_path, "- {tool: fio, rw: [read, randread], bs: [4k, 1M], size: 64M}\n")
    assert [(w.rw, w.bs) for w in found] == [
        ("read", 4096),
        ("read", 2**20),
        ("randread", 4096),
        ("randread", 2**20),
    ]


def test_names_say_what_matters(tmp_path):
    found = expand(
        tmp_path,
        "- {tool: fio, rw: randread, bs: 4k, size: 64M, iodepth: 32, numjobs: 4, ioengine: libaio}\n"
        "- {tool: fio, rw: randrw, rwmixread: 70, bs: 4k, size: 64M, direct: false, target: file}\n"
        "- {tool: dd, rw: write, bs: 1M, size: 8M, direct: true, fsync: true}\n",
    )
    assert names(found) == ["randread-4k-qd32-j4", "randrw70-4k-buffered-file", "dd-write-1M-direct-fsync"]


def test_names_that_would_be_equal_say_what_tells_them_apart(tmp_path):
    text = "- {tool: fio, rw: read, bs: 4k, size: [64M, 128M], ioengine: [psync, libaio]}\n- {tool: dd, rw: read, bs: 4k, size: 1M}\n"
    assert names(expand(tmp_path, text)) == [
        "read-4k-size64M-psync",
        "read-4k-size64M-libaio",
        "read-4k-size128M-psync",
        "read-4k-size128M-libaio",
        "dd-read-4k",
    ]
    across = (
        "- {tool: fio, rw: read, bs: 4k, size: 1M}\n- {tool: fio, rw: read, bs: 4k, size: 1M, thread: true}\n"
    )
    assert names(expand(tmp_path, across)) == ["read-4k-no-thread", "read-4k-thread"]


def test_a_name_may_be_given_or_be_a_template(tmp_path):
    text = "- {tool: fio, rw: [read, write], bs: [4k, 64k], size: 1M, name: '{rw}_{bs}.{ioengine}'}\n- {tool: dd, name: mine, rw: read, size: 1M}\n"
    assert names(expand(tmp_path, text)) == [
        "read_4k.psync",
        "read_64k.psync",
        "write_4k.psync",
        "write_64k.psync",
        "mine",
    ]


def test_a_given_name_is_completed_within_its_entry(tmp_path):
    text = "- {tool: fio, rw: [read, write], size: 1M, name: seq}\n"
    assert names(expand(tmp_path, text)) == ["seq-read", "seq-write"]


def test_overrides_set_what_they_match_as_sizes_or_as_written(tmp_path):
    found = expand(
        tmp_path,
        "- tool: fio\n  rw: [read, randwrite]\n  bs: [4k, 1M]\n  size: 64M\n  override:\n"
        "  - {match: {rw: randwrite, bs: 4096}, set: {iodepth: 8, ioengine: libaio, prefill: true}}\n"
        "  - {match: {bs: [1MiB]}, set: {idle: 2s}}\n",
        idle_s=0.5,
    )
    assert [(w.iodepth, w.conditioning.prefill, w.conditioning.idle_s) for w in found] == [
        (1, False, 0.5),
        (1, False, 2.0),
        (8, True, 0.5),
        (1, False, 2.0),
    ]


def test_excluded_cells_are_gone(tmp_path):
    text = "- {tool: fio, rw: [read, write], bs: [4k, 1M], size: 8M, exclude: [{rw: write, bs: [4k]}]}\n"
    assert names(expand(tmp_path, text)) == ["read-4k", "read-1M", "write-1M"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("- {tool: fio, rw: read, size: 1M, override: [{match: {bs: 4k}, set: {iodepth: 2}}]}", "w:2: workloads[0].override[0].match: matches nothing; correct its values"),
        ("- {tool: fio, rw: read, size: 1M, exclude: [{rw: write}]}", "w:2: workloads[0].exclude[0]: excludes nothing; remove it or correct its values"),
        ("- {tool: fio, rw: read, size: 1M, exclude: [{rw: read}]}", "w:2: workloads[0].exclude: leaves no workload of the entry; remove one"),
        ("- {tool: fio, rw: read, size: 1M, exclude: {rw: read}}", "w:2: workloads[0].exclude: is not a list; begin each item with a dash"),
        ("- {tool: fio, rw: read, size: 1M, exclude: [rw]}", "w:2: workloads[0].exclude[0]: is not a mapping of keys to values, such as {rw: write, bs: 4k}"),
        ("- {tool: fio, rw: read, size: 1M, override: [{match: {rw: read}}]}", "w:2: workloads[0].override[0]: has to hold match: and set:, nothing else"),
        ("- {tool: fio, rw: read, size: 1M, override: [{match: {rw: read}, set: {iodeth: 2}}]}", "w:2: workloads[0].override[0].set.iodeth: is not a key that can stand here; did you mean 'iodepth'?"),
        ("- {tool: fio, rw: read, size: 1M, override: [{match: {rw: read}, set: {tool: dd}}]}", "w:2: workloads[0].override[0].set.tool: is not a key that can stand here; known here: "),
        ("- {tool: fio, rw: read, size: 1M, override: [{match: {rw: read}, set: {bs: [4k]}}]}", "w:2: workloads[0].override[0].set.bs: takes one value, not a list"),
        ("- {tool: fio, rw: read, size: 1M, override: [{match: {rw: read}, set: {bs: 4z}}]}", "w:2: workloads[0].override[0].set.bs: '4z' is not a size; write for example 4k, 512M or 1073741824"),
        ("- {tool: fio, rw: [], size: 1M}", "w:2: workloads[0].rw: is an empty list; give a value"),
        ("- {tool: fio, rw: [read, [write]], size: 1M}", "w:2: workloads[0].rw[1]: a list is not possible; use read, "),
        ("- {tool: [fio, dd], rw: read, size: 1M}", "w:2: workloads[0].tool: tool a list is not known; use one of fio, dd"),
        ("- {tool: fio, rw: read, bs: 4k}", "w:2: workloads[0].size: is missing; it is the size of the range that each job works on, such as 512M"),
        ("- {tool: dd, rw: read, fsync: true, size: 1M}", "w:2: workloads[0]: fsync belongs to rw: write; remove it"),
        ("- {tool: dd, rw: read, size: 1M, drop_caches: maybe}", "w:2: workloads[0].drop_caches: 'maybe' is not true or false; it is true to sync and drop the page cache before each run"),
        ("- {tool: fio, rw: read, size: 1M}\n- {tool: fio, rw: read, size: 1M}", "w:3: workloads[1]: a second workload is called read-4k (the first begins on line 2); remove one or give name: a template such as '{rw}-{bs}-{ioengine}'"),
        ("- {tool: fio, rw: read, size: 1M, name: a}\n- {tool: dd, rw: read, size: 1M, name: a}", "w:3: workloads[1].name: a second workload is called a "),
        ("- {tool: fio, rw: read, size: 1M, name: a b}", "w:2: workloads[0].name: 'a b' is no workload name; use up to 64 letters, digits, '.', '_', '+' and '-'"),
        ("- {tool: fio, rw: read, size: 1M, name: 7}", "w:2: workloads[0].name: 7 is not a name; write text, for example '{rw}-{bs}'"),
        ("- {tool: fio, rw: read, size: 1M, name: 'a-{iodeph}'}", "w:2: workloads[0].name: '{iodeph}' is not a key of this workload; did you mean 'iodepth'?"),
        ("- fio", "w:2: workloads[0]: 'fio' is not a workload; write tool: fio, rw: read ..."),
        ("  tool: fio", "w:1: workloads: is not a list of workloads; write - tool: fio and so on"),
    ],
)  # fmt: skip
def test_each_mistake_points_at_its_value(tmp_path, text, said):
    assert wrong(tmp_path, text).startswith(said)


def test_the_matrix_is_bounded_before_it_is_built(tmp_path):
    axes = ", ".join(
        f"{key}: [{', '.join(map(str, range(1, 100)))}]"
        for key in ("iodepth", "numjobs", "rwmixread", "ramp")
    )
    assert "gives 96059601 workloads, more than 500" in wrong(
        tmp_path, f"- {{tool: fio, rw: read, size: 1M, {axes}}}"
    )
    many = f"- {{tool: fio, rw: read, size: 1M, iodepth: {list(range(1, 300))}}}\n" * 2
    assert "gives more than 500 workloads" in wrong(tmp_path, many)


def test_the_same_mistake_of_many_cells_is_told_once(tmp_path):
    said = wrong(tmp_path, "- {tool: fio, rw: [read, write, randread], bs: [4k, 1q], size: 8M}")
    assert said == "w:2: workloads[0].bs[1]: '1q' is not a size; write for example 4k, 512M or 1073741824"


AXES = {
    "rw": st.sampled_from(["read", "write", "randread", "randwrite"]),
    "bs": st.sampled_from(["4k", 4096, "64k", "1M"]),
    "size": st.sampled_from(["64M", "1G"]),
    "iodepth": st.integers(1, 4),
    "ioengine": st.sampled_from(["psync", "libaio", "io_uring"]),
    "direct": st.booleans(),
    "idle": st.sampled_from(["1s", 2]),
}
ENTRY = st.fixed_dictionaries(
    {
        key: st.lists(value, min_size=1, max_size=2, unique_by=str)
        for key, value in AXES.items()
        if key in ("rw", "size")
    },
    optional={
        key: st.lists(value, min_size=1, max_size=2, unique_by=str)
        for key, value in AXES.items()
        if key not in ("rw", "size")
    },
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=100)
@given(ENTRY)
def test_a_matrix_has_the_product_of_its_lists_with_unique_names(tmp_path, entry):
    total = 1
    for values in entry.values():
        total *= len(values)
    text = yaml.safe_dump([{"tool": "fio", **entry}])
    if {"4k", 4096} <= set(entry.get("bs", [])):
        assert "a second workload is called" in wrong(tmp_path, text)
        return
    found = expand(tmp_path, text)
    assert len(found) == total
    assert len(set(names(found))) == total
