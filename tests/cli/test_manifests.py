"""Manifests in files: all documents, and for whatever is wrong the file and the line."""

from pathlib import Path

import pytest

from fairway.cli.manifests import ManifestError, read

TWO = """\
# queues of team a
apiVersion: v1
kind: ConfigMap
metadata:
  name: one
---
---
apiVersion: v1
kind: ConfigMap
metadata: {name: two}
"""


def test_all_documents_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "two.yaml").write_text(TWO)

    found = read([str(tmp_path / "two.yaml")])

    assert [one.name for one in found] == ["one", "two"]
    assert [one.where for one in found] == [f"{tmp_path}/two.yaml:2", f"{tmp_path}/two.yaml:8"]


def test_files_of_a_directory_by_name_and_json_too(tmp_path: Path) -> None:
    (tmp_path / "b.yml").write_text(TWO)
    (tmp_path / "a.json").write_text('{"apiVersion": "v1", "kind": "Pod", "metadata": {"generateName": "p-"}}')
    (tmp_path / "notes.txt").write_text("not: for us")
    (tmp_path / "below").mkdir()

    assert [one.name for one in read([str(tmp_path)])] == ["", "one", "two"]


def test_what_is_in_a_list_is_taken_out_of_it(tmp_path: Path) -> None:
    file = tmp_path / "list.yaml"
    file.write_text("kind: List\napiVersion: v1\nitems:\n- {apiVersion: v1, kind: Pod, metadata: {name: a}}\n")

    (found,) = read([str(file)])

    assert (found.name, found.where) == ("a", f"{file}: item 1")


def test_yaml_means_what_the_api_takes_it_for(tmp_path: Path) -> None:
    file = tmp_path / "flow.yaml"
    file.write_text("{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {when: 12:30:45, on: yes}}")

    assert read([str(file)])[0].manifest["spec"] == {"when": "12:30:45", "true": True}


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param("", "{}: it contains no object", id="empty"),
        pytest.param("---\n# nothing\n---\n", "{}: it contains no object", id="only comments"),
        pytest.param("hello", "{}: expected an object with apiVersion, kind and metadata; found a text", id="a text"),
        pytest.param(
            "- a\n- b", "{}: expected an object with apiVersion, kind and metadata; found a list", id="a list"
        ),
        pytest.param(
            "kind: Pod\n", "{}: apiVersion is missing; every object needs apiVersion and kind", id="no version"
        ),
        pytest.param(
            "\n\napiVersion: v1\n", "{}:3: kind is missing; every object needs apiVersion and kind", id="no kind"
        ),
        pytest.param("apiVersion: v1\nkind: Pod\n", "{}: metadata.name is missing: the Pod needs a name", id="no name"),
        pytest.param(
            "apiVersion: v1\nkind: Pod\nmetadata:\n\tname: a\n",
            "{}:4: not valid YAML: found character that cannot start any token; YAML is indented with spaces, not tabs",
            id="a tab",
        ),
        pytest.param("a: [1, 2\n", "{}:2: not valid YAML: did not find expected ',' or ']'", id="a bracket"),
        pytest.param("a: 1\na: {b: *nobody}\n", "{}", id="an alias of nobody"),
    ],
)
def test_what_is_wrong_is_said_with_file_and_line(tmp_path: Path, text: str, want: str) -> None:
    file = tmp_path / "bad.yaml"
    file.write_text(text)

    with pytest.raises(ManifestError) as refused:
        read([str(file)])

    assert str(refused.value).startswith(want.format(file))
    assert "\n" not in str(refused.value)


def test_what_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "nothing").mkdir()

    for place, want in (
        ("absent.yaml", "cannot be read: No such file or directory"),
        ("binary.yaml", "the text is not UTF-8"),
        ("nothing", "it contains no file ending in .yaml, .yml, .json"),
    ):
        with pytest.raises(ManifestError, match=want):
            read([str(tmp_path / place)])
