import os
from collections.abc import Mapping
from typing import Annotated, Literal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field

from farm import yamlfile
from farm.errors import UserError


class Closed(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Red(Closed):
    kind: Literal["red"]
    depth: int = Field(ge=1, strict=True)


class Blue(Closed):
    kind: Literal["blue"]
    shade: Literal["light", "dark"] = "light"


class Box(Closed):
    name: str = Field(description="a short name")
    count: int = 1
    colours: tuple[Annotated[Red | Blue, Field(discriminator="kind")], ...] = ()
    sizes: Mapping[str, int] = {}


class Env(BaseModel):
    farm: Box


def write(tmp_path, text, name="x.yaml"):
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def complaint(tmp_path, text, model=Box, **options):
    path = write(tmp_path, text)
    with pytest.raises(UserError) as caught:
        yamlfile.load(path, model, **options)
    assert caught.value.exit_code == 2
    said = str(caught.value)
    for line in said.split("\n"):
        assert line.startswith(str(path)), line
        assert line.isprintable()
    return said.replace(str(path), "x.yaml")


def test_a_sound_file_becomes_its_model(tmp_path):
    text = "name: b\ncolours:\n  - {kind: red, depth: 2}\n  - {kind: blue, shade: dark}\nsizes: {a: 1}\n"
    box = yamlfile.load(write(tmp_path, text), Box)
    assert box == Box(
        name="b", colours=(Red(kind="red", depth=2), Blue(kind="blue", shade="dark")), sizes={"a": 1}
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("name: b\ncolour: 1\n", "x.yaml:2: colour: is not a key that can stand here; did you mean 'colours'?"),
        ("name: b\nzzz: 1\n", "x.yaml:2: zzz: is not a key that can stand here; known here: colours, count, name, sizes"),
        ("count: 1\n", "x.yaml:1: name: is missing; it is a short name"),
        ("name: b\ncount: many\n", "x.yaml:2: count: 'many' is not a whole number"),
        ("name: [b]\n", "x.yaml:1: name: a list is not text (put it in quotes); it is a short name"),
        ("name: b\nsizes: 4\n", "x.yaml:2: sizes: 4 is not a mapping; write key: value"),
        ("name: b\nsizes:\n  a: 1\n  b: x\n", "x.yaml:4: sizes.b: 'x' is not a whole number"),
        ("name: b\ncolours:\n- kind: blue\n  shade: dim\n", "x.yaml:4: colours[0].shade: 'dim' is not possible; use light, dark"),
        ("name: b\ncolours:\n- kind: red\n  dept: 1\n", "x.yaml:3: colours[0].depth: is missing; add it\nx.yaml:4: colours[0].dept: is not a key that can stand here; did you mean 'depth'?"),
        ("name: b\ncolours:\n- kind: green\n", "x.yaml:3: colours[0]: kind 'green' is not known; use red, blue"),
        ("name: b\ncolours:\n- depth: 1\n", "x.yaml:3: colours[0]: has no kind; add it"),
        ("name: b\nname: c\n", "x.yaml:2: name: stands twice, on lines 1 and 2; remove one"),
        ("name: b\n\tcount: 1\n", "x.yaml:2: a tab where YAML wants spaces; indent with spaces"),
        ("name: a: b\n", "x.yaml:1: a second colon on the line; put the value in quotes"),
        ("name: *nobody\n", "x.yaml:1: found undefined alias 'nobody'; define it with & above"),
        ("", "x.yaml: is empty; the keys are missing"),
        ("# only a comment\n", "x.yaml: is empty; the keys are missing"),
        ("name: b\n---\nname: c\n", "x.yaml:2: starts a second document; keep one per file, without `---`"),
        (b"name: b\ncount: \xff\n", "x.yaml:2: is not UTF-8 text; save it as UTF-8"),
        ("name: b\ncount: \x00\n", "x.yaml:2: has a control character, so it is no text; remove it"),
        ('name: "b\\0c"\n', "x.yaml:1: name: holds a control character; remove it"),
        ('name: "\\ud800"\n', "x.yaml:1: name: holds a control character; remove it"),
        ('name: "\\Uffffffff"\n', "x.yaml: has an escape sequence that is no character"),
        ("name: !!python/object/apply:os.system [id]\n", "x.yaml:1: name: the tag '!!python/object/apply:os.system' is not known here; remove it"),
        ("name: !!binary aGk=\n", "x.yaml:1: name: the tag '!!binary' is not known here; remove it"),
        ("name: b\n? [a, b]\n: 1\n", "x.yaml:2: a list or mapping is used as a key; keys are plain words"),
        ("name: b\non: 1\n", "x.yaml:2: the key 'on' is not text; put it in quotes"),
        ("name: b\ncount: .inf\n", "x.yaml:2: count: '.inf' is not a number that can be used here"),
        ("name: b\ncount: " + "9" * 5000, "x.yaml:2: count: '" + "9" * 37 + "...' is not a number"),
        ("- name\n", "x.yaml:1: a list is not a mapping; write key: value"),
        ("just words\n", "x.yaml:1: 'just words' is not a mapping; write key: value"),
        ("name: &a [*a]\n", "x.yaml:1: name[0]: an alias stands inside what it names; write the value out"),
        ("name: b\nsizes: &s\n  <<: *s\n", "x.yaml:2: sizes: `<<` merges a mapping into itself; write the keys out"),
        ("name: b\nsizes: {<<: 4}\n", "x.yaml:2: sizes: `<<` takes a mapping or a list of mappings"),
    ],
)  # fmt: skip
def test_each_complaint_is_one_sentence_with_file_line_and_key(tmp_path, text, said):
    assert complaint(tmp_path, text) == said


def test_all_complaints_come_at_once_in_the_order_of_the_file(tmp_path):
    said = complaint(tmp_path, "count: x\ncolours: 1\nsize: 2\n")
    assert said.split("\n") == [
        "x.yaml:1: name: is missing; it is a short name",
        "x.yaml:1: count: 'x' is not a whole number",
        "x.yaml:2: colours: 1 is not a list; write [a, b]",
        "x.yaml:3: size: is not a key that can stand here; did you mean 'sizes'?",
    ]


def test_a_single_complaint_carries_its_parts(tmp_path):
    path = write(tmp_path, "name: b\ncount: x\n")
    with pytest.raises(UserError) as caught:
        yamlfile.load(path, Box)
    assert (caught.value.file, caught.value.line, caught.value.key) == (path, 2, "count")


def test_many_complaints_are_cut(tmp_path):
    lines = complaint(tmp_path, "name: b\n" + "".join(f"k{number}: 1\n" for number in range(50))).split("\n")
    assert len(lines) == 21
    assert lines[-1] == "x.yaml: and 30 more like these"


def test_nesting_is_bounded(tmp_path):
    assert "nested deeper than 30 levels" in complaint(tmp_path, "name: " + "[" * 100_000)
    assert "nested deeper than 30 levels" in complaint(tmp_path, "{a: " * 20_000)
    assert "nested deeper than 30 levels" in complaint(tmp_path, "- " * 20_000)


def test_an_alias_bomb_is_bounded(tmp_path):
    bomb = "a: &a [1, 1, 1, 1, 1, 1, 1, 1, 1]\n"
    for last, this in zip("abcdefgh", "bcdefghi", strict=True):
        bomb += f"{this}: &{this} [" + ", ".join([f"*{last}"] * 9) + "]\n"
    assert "its aliases expand to more than 10000 values" in complaint(tmp_path, bomb)


def test_size_is_bounded(tmp_path):
    assert "is larger than 256 KiB" in complaint(tmp_path, "a" * 300_000)
    assert "holds more than 10000 values" in complaint(tmp_path, "[" + "1," * 30_000 + "1]")


def test_anchors_and_merge_keys_work_and_what_stands_there_wins(tmp_path):
    text = "name: b\nsizes: {<<: [&one {a: 1, b: 1}, {b: 2, c: 2}], a: 9}\n"
    assert yamlfile.load(write(tmp_path, text), Box).sizes == {"a": 9, "b": 1, "c": 2}


def test_times_and_dates_stay_text(tmp_path):
    document = yamlfile.read(write(tmp_path, "a: 5:30\nb: 2026-11-30\nc: 0x10\nd: 1.5\ne: ~\nf: yes\n"))
    assert document.data == {"a": "5:30", "b": "2026-11-30", "c": 16, "d": 1.5, "e": None, "f": True}


def test_a_byte_order_mark_is_no_part_of_the_text(tmp_path):
    assert yamlfile.load(write(tmp_path, b"\xef\xbb\xbfname: b\n"), Box).name == "b"


def test_a_block_is_read_with_its_own_lines(tmp_path):
    def block(text):
        document = yamlfile.read(write(tmp_path, text))
        return yamlfile.validate(document, Box, document.data["farm"], ("farm",))

    assert block("other: [1]\nfarm: {name: b}\n").name == "b"
    for text, said in (
        (
            "farm:\n  name: b\n  cuont: 1\n",
            "3: farm.cuont: is not a key that can stand here; did you mean 'count'?",
        ),
        ("farm: \n", "1: farm: nothing is not a mapping; write key: value"),
    ):
        with pytest.raises(UserError) as caught:
            block(text)
        assert str(caught.value) == f"{tmp_path}/x.yaml:{said}"


def test_templates_take_lg_variables_and_the_directory_of_the_file(tmp_path):
    path = write(tmp_path, "name: !template '$BASE/$LG_A-${LG_B}$$'\n")
    box = yamlfile.load(path, Box, variables={"LG_A": "1", "LG_B": "two"})
    assert box.name == f"{tmp_path}/1-two$"
    assert complaint(tmp_path, "name: !template '$LG_C'\n") == (
        "x.yaml:1: name: $LG_C is not set; set it in the environment (only LG_* and $BASE can be used)"
    )
    assert "is not a template" in complaint(tmp_path, "name: !template 'a $ b'\n")


def test_labgrids_own_loader_agrees_on_templates(tmp_path):
    from labgrid.util.yaml import load, resolve_templates

    text = "name: !template '$BASE/$LG_A'\n"
    theirs = load(text)
    resolve_templates(theirs, {"BASE": str(tmp_path), "LG_A": "z"})
    assert theirs["name"] == yamlfile.load(write(tmp_path, text), Box, variables={"LG_A": "z"}).name


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(UserError, match=r"none\.yaml: there is no such file; check the path"):
        yamlfile.load(tmp_path / "none.yaml", Box)
    with pytest.raises(UserError, match="is no file; give"):
        yamlfile.load(tmp_path, Box)
    with pytest.raises(UserError, match=r"cannot be read .embedded null byte."):
        yamlfile.load("a\0b", Box)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UserError, match="is no file"):
        yamlfile.load(tmp_path / "pipe", Box)


QUICK = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=150)


def survives(tmp_path, raw, model):
    path = tmp_path / "hostile.yaml"
    path.write_bytes(raw)
    try:
        yamlfile.load(path, model)
    except UserError as error:
        for line in str(error).split("\n"):
            assert line.startswith(str(path)), line
            assert line.isprintable(), line


@QUICK
@given(st.binary(max_size=200))
def test_no_bytes_give_a_traceback(tmp_path, raw):
    survives(tmp_path, raw, Box)


PIECES = st.sampled_from(
    ["name", "sizes", "colours", "farm", ": ", ":\n  ", "\n", "- ", "[", "]", "{", "}", ", ", "&a ", "*a", "<<", "!", "!!int ",
     "!template ", "'", '"', "|\n ", ">\n ", "#", "%YAML 9.9\n", "%TAG ! x\n", "---\n", "...\n", "? ", "\t", "  ", "~", "1e999",
     "0x", "0b", "-.inf", "1:2", "2026-99-99", "=", "\\x", "\\U99999999", "$BASE", "é", "\u2028", "\ufeff", "\x85", "kind: red"]
)  # fmt: skip


@QUICK
@given(st.lists(PIECES, max_size=40).map("".join))
def test_no_yaml_gives_a_traceback(tmp_path, text):
    survives(tmp_path, text.encode("utf-8", "surrogatepass"), Env)
