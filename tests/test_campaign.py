import copy
import pickle
from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from farm.campaign import as_run, load_campaign
from farm.errors import UserError

SOUND = """\
name: sound
boards: [virt-rk3568]
boots: 4
trials: 2
band: 3%
idle: 500ms
seed: 7
variants:
  a:
    baseline: true
    knobs: {queue/read_ahead_kb: 128, /proc/sys/vm/swappiness: 10}
    expect: {read_ahead_kb: 128, ios: {timing: mmc HS200}, dmesg: ['mmc\\d: new'], kernel: Linux version 6.}
  b:
    kernel: kernel-6.12
    modules: modules-6.12
    initrd: ./initrd.gz
    args: loglevel=4 mitigations=off
workloads:
  - tool: fio
    rw: [read, randwrite]
    bs: 4k
    size: 64M
  - {tool: dd, rw: read, bs: 1M, size: 32M, idle: 2s, band: 0.05}
"""


def write(tmp_path, text):
    path = tmp_path / "c.yaml"
    path.write_text(text)
    return path


def test_a_sound_campaign(tmp_path):
    path = write(tmp_path, SOUND)
    campaign = load_campaign(path)
    assert (campaign.name, campaign.boards, campaign.boots, campaign.trials) == (
        "sound",
        ("virt-rk3568",),
        4,
        2,
    )
    assert (campaign.band, campaign.idle_s, campaign.seed) == (0.03, 0.5, 7)
    assert campaign.source == path
    assert campaign.source_text == SOUND
    assert campaign.baseline == "a"
    a, b = campaign.variants["a"], campaign.variants["b"]
    assert (a.name, a.baseline, a.kernel) == ("a", True, None)
    assert a.knobs == {"queue/read_ahead_kb": "128", "/proc/sys/vm/swappiness": "10"}
    assert a.expect == {
        "read_ahead_kb": 128,
        "ios.timing": "mmc HS200",
        "dmesg": ("mmc\\d: new",),
        "kernel": "Linux version 6.",
    }
    assert (b.baseline, b.kernel, b.modules, b.initrd, b.dtb) == (
        False,
        "kernel-6.12",
        "modules-6.12",
        "./initrd.gz",
        None,
    )
    assert b.args == "loglevel=4 mitigations=off"
    assert [w.name for w in campaign.workloads] == ["read-4k", "randwrite-4k", "dd-read-1M"]
    assert [w.conditioning.idle_s for w in campaign.workloads] == [0.5, 0.5, 2.0]
    assert [w.band for w in campaign.workloads] == [None, None, 0.05]


def test_a_campaign_goes_to_a_worker_process_whole(tmp_path):
    campaign = load_campaign(write(tmp_path, SOUND))
    copied = pickle.loads(pickle.dumps(campaign))
    assert copied == campaign
    assert str(copied.complain("is odd", "variants", "b", "kernel")) == str(
        campaign.complain("is odd", "variants", "b", "kernel")
    )


def test_later_complaints_point_into_the_file(tmp_path):
    path = write(tmp_path, SOUND)
    campaign = load_campaign(path)
    assert str(campaign.complain("is no kernel", "variants", "b", "kernel")) == (
        f"{path}:14: variants.b.kernel: is no kernel"
    )
    assert str(campaign.complain("is too large", *campaign.entry("dd-read-1M"))) == (
        f"{path}:23: workloads[1]: is too large"
    )


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("boots: 4", "boots: 5", "3: boots: 5 is odd; a block is an order of the variants and its mirror, so use 4 or 6"),
        ("boots: 4", "boots: 0", "3: boots: 0: should be greater than or equal to 2; it is an even number of boots per variant, such as 8"),
        ("boots: 4", "boots: four", "3: boots: 'four' is not a whole number; it is an even number of boots per variant, such as 8"),
        ("boots: 4", "boots: true", "3: boots: true is not a whole number; it is an even number of boots per variant, such as 8"),
        ("boots: 4", "boost: 4", "3: boost: is not a key that can stand here; did you mean 'boots'?"),
        ("trials: 2", "trials: 0", "4: trials: 0: should be greater than or equal to 1; it is the number of runs of each workload in a boot"),
        ("band: 3%", "band: 3", "5: band: '3' is not between 0 and 100 %; write for example 3% or 0.03"),
        ("idle: 500ms", "idle: soon", "6: idle: 'soon' is not a time; write for example 5s, 500ms, 2min or 5"),
        ("name: sound", "name: so und", "1: name: 'so und' does not fit; it is a short name of letters, digits, '.', '_' and '-'"),
        ("name: sound\n", "", "1: name: is missing; it is a short name of letters, digits, '.', '_' and '-'"),
        ("[virt-rk3568]", "virt-rk3568", "2: boards: 'virt-rk3568' is not a list; write [a, b]; it is a list of board names, paths of env files, or tags, such as [board=rk3568]"),
        ("[virt-rk3568]", "[a, a]", "2: boards: names 'a' twice; remove one"),
        ("    baseline: true\n", "", "8: variants: has no baseline; add baseline: true to one variant"),
        ("    kernel: kernel-6.12", "    baseline: true", "14: variants.b.baseline: is a second baseline beside a; keep one"),
        ("    kernel: kernel-6.12", "    kernl: kernel-6.12", "14: variants.b.kernl: is not a key that can stand here; did you mean 'kernel'?"),
        ("    kernel: kernel-6.12", "    kernel: 6.12", "14: variants.b.kernel: 6.12 is not text (put it in quotes); it is the name of an entry of the env's images:, or a path"),
        ("    kernel: kernel-6.12", "    kernel: ''", "14: variants.b.kernel: is empty; name an entry of the env's images: or a path, or remove it"),
        ("    kernel: kernel-6.12", "    name: c", "14: variants.b.name: is not a key that can stand here; the variant's key is its name"),
        ("  b:\n", "  b c:\n", "13: variants.b c: is no name of a variant; use up to 64 letters, digits, '.', '_' and '-'"),
        ("mitigations=off", "a=$x", "17: variants.b.args: kernel arguments hold $ which U-Boot's shell would take; remove it"),
        ("mitigations=off", "a;b", "17: variants.b.args: kernel arguments hold ; which U-Boot's shell would take; remove it"),
        ("mitigations=off", 'a="b"', '17: variants.b.args: kernel arguments hold " which U-Boot\'s shell would take; remove it'),
        ("mitigations=off", "a=`b`", "17: variants.b.args: kernel arguments hold ` which U-Boot's shell would take; remove it"),
        ("loglevel=4 mitigations=off", '"a\\nb"', "17: variants.b.args: kernel arguments have to be one line of plain ASCII; remove other characters"),
        ("loglevel=4 mitigations=off", "a" * 600, "17: variants.b.args: kernel arguments are longer than the 512 characters that U-Boot takes"),
        ("queue/read_ahead_kb: 128", "../../ra: 1", "11: variants.a.knobs: '../../ra' has '..' in it; write the path out"),
        ("/proc/sys/vm/swappiness", "/etc/passwd", "11: variants.a.knobs: '/etc/passwd' lies outside /sys and /proc/sys; use queue/... for the disk or a path in there"),
        ("queue/read_ahead_kb: 128", "queue/a b: 1", "11: variants.a.knobs: 'queue/a b' is no sysfs path; write for example queue/read_ahead_kb"),
        ("queue/read_ahead_kb: 128", "queue/x: [1]", "11: variants.a.knobs.queue/x: a list is not text (put it in quotes)"),
        ("queue/read_ahead_kb: 128", "queue/x: yes", "11: variants.a.knobs.queue/x: holds no text or number; put the value in quotes, for example '1' or 'none'"),
        ("mmc\\d: new", "mmc(", "12: variants.a.expect: dmesg: 'mmc(' is no regular expression (missing ), unterminated subpattern at position 3)"),
        ("read_ahead_kb: 128, ios", "read_ahead_kb: [128], ios", "12: variants.a.expect: read_ahead_kb takes one value, not a list; only dmesg takes a list"),
        ("ios: {timing: mmc HS200}", "ios: ", "12: variants.a.expect.ios: nothing is no value to expect; write text or a number"),
        ("['mmc\\d: new']", "[1]", "12: variants.a.expect: dmesg takes regular expressions as text; put them in quotes"),
        ("kernel: Linux version 6.", "kernel: 6.12", "12: variants.a.expect: kernel takes a part of the banner as text; put it in quotes"),
        ("size: 64M", "size: 64 parsecs", "22: workloads[0].size: '64 parsecs' is not a size; write for example 4k, 512M or 1073741824"),
        ("rw: [read, randwrite]", "rw: [reed, randwrite]", "20: workloads[0].rw[0]: 'reed' is not possible; use read, write, randread, randwrite, randrw, trim, randtrim"),
        ("bs: 4k", "block: 4k", "21: workloads[0].block: is not a key of a fio workload; known here: "),
        ("tool: fio", "tool: iozone", "19: workloads[0].tool: tool 'iozone' is not known; use one of fio, dd"),
        ("- tool: fio\n    rw", "- rw", "19: workloads[0]: has no tool; use one of fio, dd"),
    ],
)  # fmt: skip
def test_each_mistake_is_one_sentence(tmp_path, old, new, said):
    assert SOUND.count(old) == 1
    path = write(tmp_path, SOUND.replace(old, new))
    with pytest.raises(UserError) as caught:
        load_campaign(path)
    assert str(caught.value).startswith(f"{path}:{said}")
    assert "\n" not in str(caught.value)


def test_mistakes_of_all_workloads_come_at_once(tmp_path):
    path = write(tmp_path, SOUND.replace("size: 64M", "iodepth: 0").replace("bs: 1M", "bs: 1.5"))
    with pytest.raises(UserError) as caught:
        load_campaign(path)
    said = str(caught.value).replace(str(path), "c").split("\n")
    assert [line.split(": ")[0:2] for line in said] == [
        ["c:19", "workloads[0].size"],
        ["c:22", "workloads[0].iodepth"],
        ["c:23", "workloads[1].bs"],
    ]


@pytest.mark.parametrize(
    "text", ["", "[]", "42", "name: x", "workloads: 1", "variants: [a]", "variants: {a: }"]
)
def test_what_is_no_campaign_is_told(tmp_path, text):
    with pytest.raises(UserError, match=r"c\.yaml"):
        load_campaign(write(tmp_path, text))


def test_a_missing_file_is_told():
    with pytest.raises(UserError, match=r"nowhere\.yaml: there is no such file"):
        load_campaign("nowhere.yaml")


HOSTILE = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(),
    st.text(max_size=20),
    st.sampled_from(
        ["", "\n", "-1", "4k", "1e400", "{rw}-{nope}", "{", "9" * 5000, "../x", "a\nb", "\u202e", "0", "trim", "dd", "file"]
    ),
    st.lists(st.integers(), max_size=3),
    st.dictionaries(st.text(max_size=5), st.integers(), max_size=2),
    st.just([[["x"]]]),
)  # fmt: skip
EXTRA_KEYS = st.sampled_from(
    ["name", "target", "discard", "prefill", "override", "exclude", "runtime", "ramp", "count", "direct", "fsync", "floor",
     "timeout", "numjobs", "iodepth", "offset_increment", "conditioning", "", "tool", "baseline", "expect", "knobs"]
)  # fmt: skip


def places(data, at=()):
    yield at
    if isinstance(data, dict):
        for key in data:
            yield from places(data[key], (*at, key))
    elif isinstance(data, list):
        for number, item in enumerate(data):
            yield from places(item, (*at, number))


PLACES = [place for place in places(yaml.safe_load(SOUND)) if place]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=200)
@given(st.lists(st.tuples(st.sampled_from(PLACES), st.none() | EXTRA_KEYS, HOSTILE), min_size=1, max_size=3))
def test_no_value_anywhere_gives_a_traceback(tmp_path, changes):
    data = yaml.safe_load(SOUND)
    for place, extra, value in changes:
        holder = data
        try:
            for step in place[:-1]:
                holder = holder[step]
            if extra is None:
                holder[place[-1]] = copy.deepcopy(value)
            elif isinstance(holder[place[-1]], dict):
                holder[place[-1]][extra] = copy.deepcopy(value)
        except (KeyError, TypeError, IndexError):
            pass  # an earlier change took the place away
    path = tmp_path / "hostile.yaml"
    path.write_text(yaml.safe_dump(data, allow_unicode=True), encoding="utf-8", errors="surrogatepass")
    try:
        campaign = load_campaign(path)
    except UserError as error:
        for line in str(error).split("\n"):
            assert line.startswith(str(path)), line
            assert line.isprintable(), line
    else:
        assert campaign.boots % 2 == 0
        assert sum(variant.baseline for variant in campaign.variants.values()) == 1
        names = [w.name for w in campaign.workloads]
        assert len(set(names)) == len(names)


def test_the_file_is_remembered_by_its_full_path(tmp_path, monkeypatch):
    write(tmp_path, SOUND)
    monkeypatch.chdir(tmp_path)
    assert load_campaign("c.yaml").source == tmp_path / "c.yaml"
    assert isinstance(load_campaign("c.yaml").source, Path)


def test_boots_may_be_as_many_as_it_takes(tmp_path):
    fixed = load_campaign(write(tmp_path, SOUND))
    assert (fixed.least_boots, fixed.boots, fixed.looks) == (4, 4, 1)
    until = load_campaign(write(tmp_path, SOUND.replace("boots: 4", "boots: {min: 6, max: 12}")))
    assert (until.least_boots, until.boots, until.looks) == (6, 12, 4)  # after 6, 8, 10 and 12


@pytest.mark.parametrize(
    ("boots", "said"),
    [
        ("{min: 5, max: 12}", "3: boots.min: 5 is odd; a block is an order of the variants and its mirror, so use 4 or 6"),
        ("{min: 6, max: 11}", "3: boots.max: 11 is odd; a block is an order of the variants and its mirror, so use 10 or 12"),
        ("{min: 2, max: 12}", "3: boots.min: 2: should be greater than or equal to 4; it is an even number of boots per variant, 4 or more"),
        ("{min: 12, max: 6}", "3: boots: max 6 is not above min 12; raise max, or write boots: 12"),
        ("{min: 6}", "3: boots.max: is missing; it is an even number of boots per variant, above min"),
        ("{min: 6, most: 12}", "3: boots.max: is missing"),
        ("{min: a, max: 12}", "3: boots.min: 'a' is not a whole number"),
        ("[6, 12]", "3: boots: a list is not a whole number"),
    ],
)  # fmt: skip
def test_boots_that_cannot_be_meant(tmp_path, boots, said):
    path = write(tmp_path, SOUND.replace("boots: 4", f"boots: {boots}"))
    with pytest.raises(UserError) as caught:
        load_campaign(path)
    assert str(caught.value).startswith(f"{path}:{said}")


def test_a_band_may_be_measured(tmp_path):
    text = SOUND.replace("band: 3%", "band: measured")
    campaign = load_campaign(write(tmp_path, text))
    assert [campaign.band_for(one) for one in campaign.workloads] == ["measured", "measured", 0.05]
    own = load_campaign(write(tmp_path, SOUND.replace("band: 0.05", "band: measured")))
    assert [own.band_for(one) for one in own.workloads] == [0.03, 0.03, "measured"]
    path = write(tmp_path, SOUND.replace("band: 3%", "band: measurd"))
    with pytest.raises(UserError) as caught:
        load_campaign(path)
    assert (
        str(caught.value)
        == f"{path}:5: band: 'measurd' is not a share; write for example 3% or 0.03, or measured"
    )


def test_an_aa_run_is_the_baseline_twice_in_all_its_boots(tmp_path):
    text = SOUND.replace("boots: 4", "boots: {min: 4, max: 8}").replace("band: 3%", "band: measured")
    campaign = load_campaign(write(tmp_path, text.replace("band: 0.05", "band: measured")))
    aa = as_run(campaign, {"aa": True})
    base, again = aa.variants["a"], aa.variants["a-again"]
    assert list(aa.variants) == ["a", "a-again"] and aa.baseline == "a"
    assert (again.knobs, again.expect, again.baseline) == (base.knobs, base.expect, False)
    assert (aa.name, aa.boots, aa.looks, aa.seed) == ("sound-aa", 8, 1, 7)
    assert {aa.band_for(one) for one in aa.workloads} == {0.03}, "there is nothing measured yet"
    assert [one.name for one in aa.workloads] == [one.name for one in campaign.workloads]
    assert as_run(campaign, {}) is campaign


def test_a_confirming_run_is_what_its_settings_name(tmp_path):
    campaign = load_campaign(write(tmp_path, SOUND.replace("  b:\n", "  c: {}\n  b:\n")))
    part = as_run(campaign, {"confirms": "r1", "variants": ["a", "b"], "workloads": ["dd-read-1M"]})
    assert (list(part.variants), [one.name for one in part.workloads]) == (["a", "b"], ["dd-read-1M"])
    assert (part.name, part.boots, part.band) == (campaign.name, campaign.boots, campaign.band)
