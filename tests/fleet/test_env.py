"""Env files: labgrid's own part stays labgrid's, the farm: block is checked to the last key."""

from pathlib import Path

import pytest

from farm.errors import UserError
from farm.fleet import env

ENV = """\
targets:
  main:
    resources:
      - RawSerialPort: {port: !template "$LG_TTY", speed: 115200}
images: {kernel: Image}
farm:
  soc: RK3568
  disk: {controller: fe310000.mmc, type: MMC, size: 16GiB}
  scratch:
    raw: {partition: 7, start: 8GiB, size: 4GiB}
  flash:
    method: uboot-write
    interface: mmc
    load: {kernel: 0x02000000, initrd: 0x0a200000}
    slots:
      kernel: {start: 16MiB, size: 64MiB}
  golden: {kernel: kernel}
"""


def load(tmp_path: Path, text: str = ENV) -> env.BoardEnv:
    (tmp_path / "board.yaml").write_text(text)
    return env.load(str(tmp_path / "board.yaml"), {"LG_TTY": "/dev/ttyUSB0"})


def test_a_good_env(tmp_path) -> None:
    board = load(tmp_path)
    assert board.name == "board"
    assert board.farm.disk.size == 16 * 1024**3
    assert board.farm.scratch.raw.start == 8 * 1024**3
    (tmp_path / "Image").write_bytes(b"x")
    assert board.image("kernel") == tmp_path / "Image"


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("soc:", "sock:", r"board\.yaml:7: farm\.sock"),
        ("size: 16GiB", "size: 16 gigs", r"board\.yaml:8: farm\.disk\.size: '16 gigs' is not a size"),
        ("type: MMC", "type: NVMe", r"board\.yaml:8: farm\.disk\.type"),
        ("start: 8GiB", "start: 1000", r"1000 is not a multiple of 512"),
        (
            "raw: {partition: 7, start: 8GiB, size: 4GiB}",
            "files: {partition: 7, start: 8GiB, size: 4GiB}",
            r"board\.yaml:\d+: farm\.scratch: files needs filesystem and mount",
        ),
        (
            "golden: {kernel: kernel}",
            'golden: {kernel: kernel}\n  args: "quiet\'; mmc erase 0 1"',
            r"board\.yaml:18: farm\.args: kernel arguments hold ' which U-Boot's shell would take; remove it",
        ),
        ("method: uboot-write", "method: telepathy", r"board\.yaml:\d+: farm\.flash"),
        ("start: 16MiB, size: 64MiB}", "start: 0, size: 64MiB}", "where a partition table lies"),
        ("kernel: {start: 16MiB", "dtb: {start: 16MiB", "slots have no kernel"),
        ("  golden: {kernel: kernel}\n", "", r"farm\.golden"),
        ("main:", "mine:", "has no target called main"),
        ("$LG_TTY", "$LG_NOTHING", "LG_NOTHING"),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence_with_file_and_key(tmp_path, old, new, said) -> None:
    assert old in ENV
    with pytest.raises(UserError, match=said) as caught:
        load(tmp_path, ENV.replace(old, new))
    assert caught.value.exit_code == 2
    assert "Traceback" not in str(caught.value)


def test_slots_must_not_overlap(tmp_path) -> None:
    text = ENV.replace("    slots:\n", "    slots:\n      initrd: {start: 64MiB, size: 16MiB}\n")
    with pytest.raises(UserError, match="slots kernel and initrd overlap"):
        load(tmp_path, text)


def test_an_unknown_image_names_the_known_ones(tmp_path) -> None:
    with pytest.raises(
        UserError, match=r"image 'nothing' is neither a file nor an entry .*\(there: kernel\)"
    ):
        load(tmp_path).image("nothing", beside=tmp_path)


def test_an_image_that_is_not_there_names_file_and_key(tmp_path) -> None:
    with pytest.raises(UserError, match=r"board\.yaml: images\.kernel: no such file: .*Image"):
        load(tmp_path).image("kernel")


def test_an_unknown_board_names_the_known_ones() -> None:
    with pytest.raises(UserError, match=r"unknown board 'virt-rk3569'; known are .*virt-rk3568"):
        env.find("virt-rk3569")


@pytest.mark.parametrize("name", ["..", "x\x1b[31m", "a\nb", "-o", "n" * 65, "a b"])
def test_a_file_whose_name_no_log_and_no_table_could_have_is_no_board(tmp_path: Path, name: str) -> None:
    (tmp_path / f"{name}.yaml").write_text(ENV)
    with pytest.raises(UserError, match="cannot name a board; name the file with up to 64 letters") as wrong:
        env.load(str(tmp_path / f"{name}.yaml"), {"LG_TTY": "/dev/ttyUSB0"})
    assert str(wrong.value).isprintable()
