import json

import pytest

from farm.analysis.noise import Calibration, Noise
from farm.campaign import load_campaign
from farm.errors import UserError
from farm.plan import BoardFacts, ScratchArea, plan, plan_dict
from farm.schedule import schedule

MIB = 1024 * 1024
RAW = ScratchArea("scratch.raw", 512 * MIB)
FILES = ScratchArea("scratch.files", 256 * MIB)

HEAD = """\
name: p
boards: [x]
boots: 4
trials: 3
variants:
  a: {baseline: true, kernel: one}
  b: {kernel: two}
  c: {kernel: two, knobs: {queue/read_ahead_kb: 1}}
workloads:
"""


def campaign(tmp_path, workloads, head=HEAD):
    path = tmp_path / "p.yaml"
    path.write_text(head + workloads)
    return load_campaign(path)


def board(name="x", **values):
    return BoardFacts(
        **{"name": name, "disk": "SD", "raw": RAW, "files": FILES, "boot_s": 10, "write_rate": 10e6, **values}
    )


def test_boots_come_in_the_schedules_order_with_their_trials(tmp_path):
    made = plan(campaign(tmp_path, "- {tool: dd, rw: read, bs: 1M, size: 8M}\n"), [board()], seed=5)
    (one,) = made.boards
    assert one.boots == schedule(("a", "b", "c"), 4, 5)
    assert one.trials == 12 * 3
    assert (made.seed, made.baseline, made.variants) == (5, "a", ("a", "b", "c"))
    assert made.commands == (("dd-read-1M", ("dd", "if=RAW", "of=/dev/null", "bs=1M", "count=8")),)
    assert one.written == ()


def test_bytes_are_counted_per_purpose(tmp_path):
    # 3 variants x 4 boots x 3 trials = 36 runs
    made = plan(
        campaign(
            tmp_path,
            "- {tool: dd, rw: write, bs: 1M, size: 8M, prefill: true, name: d}\n"
            "- {tool: fio, rw: randwrite, size: 16M, prefill: true, name: s}\n"
            "- {tool: fio, rw: write, size: 4M, prefill: true, runtime: 2, ramp: 1, name: t}\n"
            "- {tool: fio, rw: randrw, size: 4M, numjobs: 2, name: m}\n"
            "- {tool: dd, rw: read, target: file, bs: 1M, size: 32M, name: f}\n",
        ),
        [board()],
        seed=1,
    )
    found = {entry.purpose: (entry.device, entry.bytes, entry.at_most) for entry in made.boards[0].written}
    assert found == {
        "trials of d": ("scratch.raw", 36 * 8 * MIB, False),
        "trials of s": ("scratch.raw", 36 * 16 * MIB, False),
        "trials of t": ("scratch.raw", 36 * 30_000_000, True),
        "trials of m": ("scratch.raw", 36 * 8 * MIB, True),
        # 8 MiB for d, then 16 MiB for s, which covers t, in each of 12 boots
        "pre-fill": ("scratch.raw", 12 * 24 * MIB, False),
        "files to read": ("scratch.files", 32 * MIB, True),
    }


def test_a_discard_between_prefills_makes_them_happen_per_trial(tmp_path):
    workloads = "- {tool: fio, rw: write, size: 4M, prefill: true, name: w}\n- {tool: fio, rw: trim, size: 4M, discard: true, name: t}\n"
    made = plan(campaign(tmp_path, workloads), [board()], seed=1)
    assert [
        (entry.bytes, entry.at_most) for entry in made.boards[0].written if entry.purpose == "pre-fill"
    ] == [(36 * 4 * MIB, True)]


def test_only_other_images_are_flashed(tmp_path):
    made = plan(
        campaign(tmp_path, "- {tool: dd, rw: read, bs: 1M, size: 8M}\n"),
        [board(flash_bytes={"a": 1, "b": 100, "c": 100}, flash_method="uboot-write")],
        seed=5,
    )
    (one,) = made.boards
    kernels = [{"a": "one", "b": "two", "c": "two"}[boot.variant] for boot in one.boots]
    changes = [kernel for last, kernel in zip([None, *kernels], kernels, strict=False) if kernel != last]
    assert one.flashes == len(changes)
    assert one.flashed_bytes == sum({"one": 1, "two": 100}[kernel] for kernel in changes)


def test_time_is_boots_and_trials_and_rest(tmp_path):
    made = plan(
        campaign(tmp_path, "- {tool: fio, rw: read, size: 8M, runtime: 4, ramp: 1, idle: 2}\n"),
        [board()],
        seed=1,
    )
    # 12 boots of 10 s, 36 runs of 7 s and half a second each beside it
    assert made.seconds == made.boards[0].seconds == 12 * 10 + 36 * 7.5


def test_boards_work_side_by_side_unless_they_measure_alone(tmp_path):
    one = campaign(tmp_path, "- {tool: fio, rw: read, size: 8M, runtime: 4, ramp: 1, idle: 2}\n")
    apart = plan(one, [board("x"), board("y")], seed=1)
    assert apart.seconds == 12 * 10 + 36 * 7.5
    alone = plan(one, [board("x", alone="cpu"), board("y", alone="cpu")], seed=1)
    assert alone.seconds == 10 + 2 * 36 * 7.5
    # each takes its share of how many may be at work at once
    facts = [board("x", alone="cpu", at_once=1), *(board(name, alone="cpu", at_once=2) for name in "yz")]
    three = plan(one, facts, seed=1)
    own = three.boards[0].seconds
    assert three.seconds == max(10 + 3 * 36 * 7.5, own + own / 2 + own / 2)


@pytest.mark.parametrize(
    ("workload", "facts", "said"),
    [
        ("- {tool: dd, rw: read, bs: 1M, size: 1G}", {}, "p.yaml:10: workloads[0]: workload dd-read-1M needs 1 GiB, but scratch.raw of board x has 512 MiB; make size smaller"),
        ("- {tool: dd, rw: write, bs: 1M, size: 300M, target: file}", {}, "p.yaml:10: workloads[0]: workload dd-write-1M-file needs 300 MiB, but scratch.files of board x has 256 MiB; make size smaller"),
        ("- {tool: fio, rw: read, size: 128M, numjobs: 5, offset_increment: 128M}", {}, "p.yaml:10: workloads[0]: workload read-4k-j5 needs 640 MiB, but scratch.raw of board x has 512 MiB; make size smaller"),
        ("- {tool: fio, rw: read, size: 1M}", {"raw": None}, "p.yaml:10: workloads[0]: workload read-4k needs scratch.raw, which the env of board x does not declare; declare it there, or write target: file"),
        ("- {tool: fio, rw: read, size: 1M, target: file}", {"files": None}, "p.yaml:10: workloads[0]: workload read-4k-file needs scratch.files, which the env of board x does not declare; declare it there, or write target: raw"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(tmp_path, workload, facts, said):
    with pytest.raises(UserError) as caught:
        plan(campaign(tmp_path, workload), [board(**facts)], seed=1)
    assert str(caught.value) == f"{tmp_path}/{said}"


def test_doubts_are_collected_with_their_workloads(tmp_path):
    head = HEAD.replace("boots: 4", "boots: 2")
    made = plan(
        campaign(
            tmp_path, "- {tool: fio, rw: [read, randread], size: 8M, iodepth: 4, runtime: 1, ramp: 1}\n", head
        ),
        [board(), board("y")],
        seed=1,
    )
    assert {finding.lint.code: finding.workloads for finding in made.findings} == {
        "depth-without-async-engine": ("read-4k-qd4", "randread-4k-qd4"),
        "too-few-boots": (),
        "governor-not-fixed": (),
    }


def test_a_governor_that_knobs_fix_is_no_doubt(tmp_path):
    knob = "knobs: {/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor: performance}"
    head = f"name: p\nboards: [x]\nboots: 4\nvariants:\n  a: {{baseline: true, {knob}}}\n  b: {{{knob}}}\nworkloads:\n"
    one = campaign(tmp_path, "- {tool: dd, rw: read, bs: 1M, size: 8M}\n", head)
    assert plan(one, [board(facts={"governor": "schedutil"})], seed=1).findings == ()


def test_the_plan_as_json(tmp_path):
    made = plan(campaign(tmp_path, "- {tool: dd, rw: write, bs: 1M, size: 8M}\n"), [board()], seed=3)
    data = json.loads(json.dumps(plan_dict(made)))
    assert data["seed"] == 3
    assert [boot["variant"] for boot in data["boards"][0]["boots"]] == [
        boot.variant for boot in made.boards[0].boots
    ]
    assert data["boards"][0]["written"][0] == {
        "device": "scratch.raw",
        "purpose": "trials of dd-write-1M",
        "bytes": 36 * 8 * MIB,
        "at_most": False,
    }


def test_a_plan_until_settled_has_the_least_and_the_most(tmp_path):
    workloads = "- {tool: dd, rw: write, bs: 1M, size: 8M, idle: 2, name: d}\n"
    head = HEAD.replace("boots: 4", "boots: {min: 4, max: 10}")
    made = plan(campaign(tmp_path, workloads, head), [board()], seed=5)
    (one,) = made.boards
    assert (made.least_boots, made.boots, made.looks) == (4, 10, 4)
    assert one.least.boots == one.boots[:12] == schedule(("a", "b", "c"), 4, 5)
    # a trial: 8 MiB at 10 MB/s, 2 s of rest, half a second beside it; a boot has three of them and 10 s of its own
    each = 10 + 3 * (8 * MIB / 10e6 + 2.5)
    assert one.least.seconds == pytest.approx(12 * each) == pytest.approx(made.least_seconds)
    assert one.seconds == pytest.approx(30 * each) == pytest.approx(made.seconds)
    assert [entry.bytes for entry in one.least.written] == [36 * 8 * MIB]
    assert [entry.bytes for entry in one.written] == [90 * 8 * MIB]
    fixed = plan(campaign(tmp_path, workloads), [board()], seed=5)
    assert fixed.boards[0].least is None and fixed.least_seconds == fixed.seconds


def test_calibrations_say_what_to_expect(tmp_path):
    noise = Noise(0.03, 10, 12)
    known = {"x": {"d": Calibration("aa1", 1.8e9, "SD (0x01)", {("bw_bytes", "read"): noise})}}
    workloads = "- {tool: dd, rw: read, bs: 1M, size: 8M, name: d}\n- {tool: dd, rw: read, bs: 4k, size: 8M, name: e}\n"
    made = plan(campaign(tmp_path, workloads), [board(), board("y")], seed=5, calibrations=known)
    (found,) = made.boards[0].estimates
    assert (found.workload, found.run, found.started, found.card) == ("d", "aa1", 1.8e9, "SD (0x01)")
    assert (found.spread, found.band, found.measured) == (0.03, 0.03, False)
    assert found.boots_for_same == 20  # tests/analysis/test_noise.py has it by hand
    # two workloads, two candidates
    assert found.boots_for_change == noise.boots_for_change(0.03, 4)
    assert made.boards[1].estimates == ()
    head = HEAD.replace("trials: 3", "trials: 3\nband: measured")
    measured = (
        plan(campaign(tmp_path, workloads, head), [board()], seed=5, calibrations=known)
        .boards[0]
        .estimates[0]
    )
    assert (measured.measured, measured.band) == (True, noise.band(4))


def test_equal_boards_share_blocks_and_a_plan_says_where_that_leaves_too_few(tmp_path):
    one = campaign(tmp_path, "- {tool: dd, rw: read, bs: 1M, size: 8M}\n")
    boards = [board("x", group="board=q"), board("y", group="board=q"), board("z", group="z")]
    made = plan(one, boards, seed=1)
    blocks = {each.board.name: sorted({boot.block for boot in each.boots}) for each in made.boards}
    assert one.boots == 4, "two blocks"
    assert blocks == {"x": [0], "y": [1], "z": [0, 1]}
    assert [each.shares_with for each in made.boards] == [("y",), ("x",), ()]
    thin = [found.lint for found in made.findings if found.lint.code == "too-few-boots"]
    assert [lint.message for lint in thin] == [
        f"{name} gets 2 of 4 boots per variant, as 2 equal boards share them, and can only end as inconclusive"
        for name in ("x", "y")
    ]
    assert thin[0].remedy == "write boots: 8 or more, or take fewer boards"


def test_what_is_known_of_a_board_sharpens_the_doubts_before_a_run(tmp_path):
    cells = (
        "- {tool: dd, rw: read, bs: 1M, size: 8M, drop_caches: false}\n"
        "- {tool: fio, rw: randwrite, size: 64k, runtime: 1, ramp: 1, prefill: true}\n"
    )
    facts = {"memory_bytes": 2 << 30, "ext_csd.cache_bytes": 512 << 10}
    made = plan(campaign(tmp_path, cells), [board(facts=facts)], seed=1)
    assert {finding.lint.code: finding.workloads for finding in made.findings} == {
        "size-below-memory": ("dd-read-1M",),
        "caches-not-dropped": ("dd-read-1M",),
        "size-below-cache": ("randwrite-4k",),
    }
