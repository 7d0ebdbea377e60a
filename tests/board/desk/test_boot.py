"""The board through its states, driven by labgrid's strategy: each is reached, holds, and asking twice does nothing."""

from contextlib import suppress

from farm.board.strategy import FarmStrategy


def says_power(strategy: FarmStrategy, on: bool) -> bool:
    """Whether the switch agrees; one that cannot say agrees with everything."""
    with suppress(NotImplementedError):
        return bool(strategy.power.get()) is on
    return True


def test_off_switches_power_off(strategy: FarmStrategy) -> None:
    strategy.transition("off")
    assert says_power(strategy, False)
    strategy.transition("off")
    assert says_power(strategy, False)


def test_bootloader_stops_at_its_prompt_and_stays_there(strategy: FarmStrategy) -> None:
    strategy.transition("off")
    strategy.transition("bootloader")
    lives = strategy.lives
    strategy.transition("bootloader")
    assert strategy.lives == lives
    assert says_power(strategy, True)
    if strategy.uboot is not None:
        assert any("U-Boot" in line for line in strategy.uboot.run_check("version"))


def test_shell_answers_and_a_second_request_does_not_boot_again(strategy: FarmStrategy) -> None:
    strategy.transition("shell")
    strategy.shell.run_check("echo of-this-boot >/tmp/farm-desk")
    lives = strategy.lives
    strategy.transition("shell")
    assert strategy.lives == lives
    assert strategy.shell.run_check("cat /tmp/farm-desk") == ["of-this-boot"]
