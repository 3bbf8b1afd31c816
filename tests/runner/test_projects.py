"""The Project registry: what it yields, and that a bad file costs only its own Project."""

import os
from typing import Any

import pytest

from tests.requirements import requirement
from tests.runner.place import Place
from webcodex.protocol import hello
from webcodex.runner import private_files, projects


@requirement("R-03")
def test_each_sound_file_is_a_project_with_the_identity_of_its_root(place: Place) -> None:
    folder = place.add_project(
        "demo", name="Demo", kind="python", description="A demo", shell_profile="x", hooks={"a": [1]}
    )
    place.add_project("other", allow_patch=False, disabled=True)
    registry = projects.load(place.rules())
    assert registry.faults == ()
    assert registry.projects["demo"] == projects.Project(
        id="demo",
        root=str(folder),
        identity=private_files.Identity.of(folder.stat()),
        name="Demo",
        kind="python",
        description="A demo",
        allow_patch=True,
        disabled=False,
    )
    assert registry.entries() == (
        hello.ProjectEntry(id="demo", path=str(folder), name="Demo", kind="python", description="A demo"),
        hello.ProjectEntry(
            id="other", path=str(place.root / "work" / "other"), allow_patch=False, disabled=True
        ),
    )


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "no id": ({"id": None}, "id is required."),
    "an id with a slash": ({"id": "a/b"}, "id must match "),
    "two dots": ({"id": ".."}, "id must match "),
    "an id of 129": ({"id": "x" * 129}, "id must be a text of 1 to 128 "),
    "no path": ({"path": None}, "path is required."),
    "a relative path": ({"path": "work/demo"}, "path must be an absolute path."),
    "a path that is not there": ({"path": "{work}/absent"}, "path must be a directory"),
    "a path to a file": ({"path": "{work}/file"}, "path must be a directory"),
    "a path with dots": ({"path": "{work}/../work/bad"}, "path must be canonical"),
    "a path behind a link": ({"path": "{work}/link"}, "path must be canonical"),
    "a path beyond the allowed roots": ({"path": "/etc"}, "path must lie beneath"),
    "the state directory": ({"path": "{root}/runner-state"}, "path must "),
    "an unknown key": ({"colour": "red"}, "colour is not a key"),
    "a name that is none": ({"name": 1}, "name must be a text"),
    "a flag that is none": ({"disabled": "no"}, "disabled must be true or false."),
}


@requirement("R-03")
@pytest.mark.parametrize("row", BAD)
def test_a_bad_file_disables_only_its_own_project(row: str, place: Place) -> None:
    changes, rule = BAD[row]
    place.add_project("good")
    work = place.root / "work"
    (work / "file").touch()
    (work / "bad").mkdir()
    (work / "link").symlink_to("bad")
    spelled = {
        key: value.format(work=work, root=place.root) if isinstance(value, str) else value
        for key, value in changes.items()
    }
    place.add_project("bad", **spelled)
    registry = projects.load(place.rules())
    assert list(registry.projects) == ["good"]
    [fault] = registry.faults
    assert fault.file == "bad.toml"
    assert fault.rule.startswith(rule)
    assert str(place.root) not in fault.rule


@requirement("R-02", "R-03")
def test_a_root_that_holds_the_state_directory_is_no_project(place: Place) -> None:
    place.own()
    place.add_project("around", path=str(place.root))
    rules = projects.Rules(
        registry_dir=place.registry, allowed_roots=[str(place.root)], state_dir=place.state_dir
    )
    registry = projects.load(rules)
    assert registry.projects == {}
    assert [fault.rule for fault in registry.faults] == [
        "path must not hold the Runner's state_dir, nor lie in it."
    ]


@requirement("R-03")
def test_two_files_with_one_id_disable_both(place: Place) -> None:
    place.add_project("demo")
    place.add_project("demo", file="second")
    place.add_project("other")
    registry = projects.load(place.rules())
    assert list(registry.projects) == ["other"]
    assert registry.faults == (
        projects.Fault(file="demo.toml", rule="duplicate_project_id"),
        projects.Fault(file="second.toml", rule="duplicate_project_id"),
    )


@requirement("R-03")
def test_what_is_no_plain_file_disables_only_itself(place: Place) -> None:
    place.add_project("good")
    os.mkfifo(place.registry / "fifo.toml")
    (place.registry / "folder.toml").mkdir()
    (place.registry / "link.toml").symlink_to("good.toml")
    (place.registry / "long.toml").write_text("#" * 70_000)
    (place.registry / "text.toml").write_text("no toml")
    (place.registry / ".hidden.toml").write_text("no toml")
    (place.registry / "notes.txt").write_text("no toml")
    registry = projects.load(place.rules())
    assert list(registry.projects) == ["good"]
    assert [fault.file for fault in registry.faults] == [
        "fifo.toml",
        "folder.toml",
        "link.toml",
        "long.toml",
        "text.toml",
    ]


@requirement("R-03")
def test_an_allowed_root_may_itself_be_a_project(place: Place) -> None:
    place.add_project("work", path=str(place.root / "work"))
    assert list(projects.load(place.rules()).projects) == ["work"]


@requirement("R-03")
def test_a_registry_that_cannot_be_listed_is_told_from_an_empty_one(place: Place) -> None:
    with pytest.raises(projects.RegistryUnreadable):
        projects.load(place.rules())
    place.registry.mkdir()
    assert projects.load(place.rules()) == projects.Registry(projects={})
