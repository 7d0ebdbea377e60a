"""The model of a virtual board, and the QEMU command line made of it."""

from itertools import pairwise

import pytest
from pydantic import ValidationError

from farm.virtual.machine import Card, Partition, VirtualBoard, qemu_argv

GIB = 1024**3


def test_sizes_are_read_as_people_write_them() -> None:
    board = VirtualBoard.model_validate(
        {"memory": "512M", "flash_size": "128MiB", "card": {"size": "2G", "partitions": [{"size": "64M"}]}}
    )
    assert (board.memory, board.flash_size, board.card.size) == (536870912, 134217728, 2147483648)
    assert board.card.partitions[0].size == 67108864


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"arch": "mips"}, "arm64"),
        ({"cpus": 0}, "greater than or equal to 1"),
        ({"memory": "64M"}, "from 256 MiB"),
        ({"flash_size": "1000"}, "whole number of MiB"),
        ({"baud": 50}, "greater than or equal to 300"),
        ({"ssh": 1}, "greater than or equal to 2"),
        ({"icount": 3, "cpus": 2}, "cpus: 1"),
        ({"card": {"size": "3G"}}, "power of two"),
        ({"card": {"size": "1G", "partitions": [{"size": "1G"}]}}, "the card has 1 GiB"),
        ({"card": {"partitions": [{"size": "1500k"}]}}, "whole number of MiB"),
        ({"card": {"partitions": [{"size": "1M"}] * 5}}, "at most 4"),
        ({"card": {"partitions": [{"size": "1M", "content": "ntfs"}]}}, "ext4"),
        ({"card": {"options": "throttling.iops-total=fast"}}, "not a card option"),
        ({"card": {"options": "throttling.iops-totel=1"}}, "not a card option"),
        ({"card": {"options": "file=/etc/shadow"}}, "not a card option"),
        ({"card": {"options": "cache=unsafe,,"}}, "not a card option"),
        ({"arch": "riscv64", "userland": "toybox"}, "riscv64 boards have the userland gnu, not toybox"),
        ({"colour": "red"}, "Extra inputs"),
    ],
)
def test_what_cannot_be_is_refused(fields: dict, complaint: str) -> None:
    with pytest.raises(ValidationError, match=complaint):
        VirtualBoard.model_validate(fields)


def value_behind(argv: list[str], word: str, containing: str = "") -> str:
    """The value of the option whose value contains something."""
    pairs = list(pairwise(argv))
    found = [value for option, value in pairs if option == word and containing in value]
    assert len(found) == 1, (word, containing, argv)
    return found[0]


def test_an_arm64_board_is_the_machine_that_its_env_describes() -> None:
    board = VirtualBoard(cpus=2, memory=512 * 1024**2, card=Card(options="throttling.iops-total=20000"))
    argv = qemu_argv(board, 7)
    assert argv[0] == "qemu-system-aarch64"
    assert value_behind(argv, "-bios") == "/usr/lib/u-boot/qemu_arm64/u-boot.bin"
    assert value_behind(argv, "-smp") == "2"
    assert value_behind(argv, "-m") == "512M"
    assert "fd=7" in value_behind(argv, "-chardev", "console").split(",")
    card = value_behind(argv, "-drive", "card.img").split(",")
    assert {"throttling.iops-total=20000", "format=raw", "id=card", "cache=unsafe"} <= set(card)
    assert "drive=card" in value_behind(argv, "-device", "sd-card")
    # a guest must reach nothing but QEMU's own DHCP and TFTP
    assert "restrict=on" in value_behind(argv, "-netdev").split(",")
    assert not any("hostfwd" in word for word in argv)


def test_a_guests_ssh_port_can_be_reached_from_this_machine_alone() -> None:
    net = value_behind(qemu_argv(VirtualBoard(ssh=30), 7, "127.4.5"), "-netdev").split(",")
    assert "hostfwd=tcp:127.4.5.30:2222-:22" in net
    assert "restrict=on" in net


def test_a_riscv64_board_has_the_devices_that_its_uboot_sees() -> None:
    argv = qemu_argv(VirtualBoard(arch="riscv64"), 7)
    assert argv[0] == "qemu-system-riscv64"
    assert value_behind(argv, "-kernel") == "/usr/lib/u-boot/qemu-riscv64_smode/u-boot.bin"
    devices = [value.split(",")[0] for option, value in pairwise(argv) if option == "-device"]
    assert devices == ["virtio-net-device", "virtio-blk-device", "sdhci-pci", "sd-card"]


def test_the_users_cache_mode_is_the_only_one() -> None:
    argv = qemu_argv(VirtualBoard(card=Card(options="cache=none")), 3)
    assert value_behind(argv, "-drive", "card.img").count("cache=") == 1


def test_icount_lets_guest_time_follow_instructions() -> None:
    assert value_behind(qemu_argv(VirtualBoard(icount=3), 3), "-icount") == "shift=3,sleep=off"
    assert "-icount" not in qemu_argv(VirtualBoard(), 3)


def test_boards_are_values() -> None:
    assert VirtualBoard(card=Card(partitions=(Partition(size=2**20),))) == VirtualBoard.model_validate(
        {"card": {"partitions": [{"size": "1M"}]}}
    )
    assert VirtualBoard.model_validate(VirtualBoard(baud=115200).model_dump()) == VirtualBoard(baud=115200)
