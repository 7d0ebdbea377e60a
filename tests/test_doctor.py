"""What the doctor looks at on this machine, where make test has installed everything."""

from farm.doctor import look


def test_a_machine_that_was_set_up_misses_nothing_and_venv_programs_are_found_off_the_path(
    monkeypatch,
) -> None:
    monkeypatch.setenv("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
    findings = {one.name: one for one in look()}
    assert findings["labgrid-client"].ok
    assert findings["qemu-system-aarch64"].ok


def test_what_is_missing_names_its_package(monkeypatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    qemu = next(one for one in look() if one.name == "qemu-system-aarch64")
    assert (qemu.ok, qemu.found) == (False, "missing")
    assert "apt-get install qemu-system-arm" in qemu.remedy
