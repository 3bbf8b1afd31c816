"""The text of a project path: what is refused before any file system call, and what is withheld."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.requirements import requirement
from webcodex.runner import path_form


@requirement("R-10")
@pytest.mark.parametrize(
    "path",
    [
        "",
        "/etc/passwd",
        "//host/share",
        "~",
        "~/notes",
        "~root/notes",
        "C:/Windows",
        "c:notes",
        "\\\\host\\share",
        "a\\b",
        "a/b\\",
        "notes.txt:stream",
        "a\0b",
        "a\nb",
        "a\x7fb",
        "a\x85b",
        "..",
        "../a",
        "a/..",
        "a/../b",
        "a//b",
        "a/",
        "a./b",
        "a/b.",
        "...",
        "a /b",
        "b ",
        "con",
        "CON",
        "a/NUL.txt",
        "Com1",
        "lpt9.log",
        "COM¹",
        "CONIN$",
        "aux .txt",
        "x" * 256,
        "ü" * 128,
        "a/" * 2048 + "a",
        "\ud800",
    ],
)
def test_a_path_in_a_refused_form_is_invalid(path: str) -> None:
    with pytest.raises(path_form.PathRefused) as caught:
        path_form.parse(path)
    assert caught.value.reason == "invalid_path"


@requirement("R-10")
@pytest.mark.parametrize(
    ("path", "components"),
    [
        ("clamp.py", ("clamp.py",)),
        ("src/a b/ü.py", ("src", "a b", "ü.py")),
        ("./src/./a.py", ("src", "a.py")),
        (".", ()),
        ("a/backup~", ("a", "backup~")),
        (".github/x", (".github", "x")),
        ("..a/b..c", ("..a", "b..c")),
        ("console/com10/auxiliary.py", ("console", "com10", "auxiliary.py")),
        ("x" * 255, ("x" * 255,)),
    ],
)
def test_a_plain_relative_path_gives_its_components(path: str, components: tuple[str, ...]) -> None:
    assert path_form.parse(path) == components


@requirement("R-10")
@given(path=st.text(alphabet="ab./\\~: \0\nü", max_size=12) | st.text(max_size=12))
def test_whatever_is_accepted_stays_beneath_its_root(path: str) -> None:
    try:
        components = path_form.parse(path)
    except path_form.PathRefused as error:
        assert error.reason == "invalid_path"  # noqa: PT017 - both outcomes are right
        return
    assert not {"", ".", ".."} & set(components)
    assert not any(character in component for component in components for character in "/\\:\0\n")
    assert not path.startswith(("/", "~"))


SENSITIVE = [
    ".git",
    ".git/config",
    "sub/.git/hooks/pre-commit",
    ".env",
    ".env.local",
    ".env.example.local",
    "deploy/server.pem",
    "a.key",
    "a.p12",
    "a.pfx",
    "a.keystore",
    "id_rsa",
    "keys/id_rsa_work",
    "id_dsa.old",
    "id_ecdsa",
    "id_ed25519",
    ".ssh/known_hosts",
    ".gnupg/x",
    ".aws/credentials",
    ".azure/x",
    ".netrc",
    ".npmrc",
    ".pypirc",
    ".git-credentials",
    ".docker/config.json",
    "home/.kube/config",
    ".codex/auth.json",
]


def spellings(path: str) -> set[str]:
    return {path, path.upper(), path.title(), path.replace("k", "\u212a"), path.replace("s", "\u017f")}


@requirement("R-13")
@pytest.mark.parametrize("path", SENSITIVE)
def test_sensitive_paths_are_recognised_in_every_spelling(path: str) -> None:
    for spelling in spellings(path):
        assert path_form.is_sensitive(tuple(spelling.split("/"))), spelling


@requirement("R-13")
@pytest.mark.parametrize(
    "path",
    [
        ".gitignore",
        ".github/workflows/ci.yml",
        "git/config",
        ".env.example",
        ".env.sample",
        ".ENV.Template",
        "env",
        ".environment",
        "id_rsa.pub",
        "id_ed25519_work.pub",
        "my_id_rsa",
        "keys.py",
        "a.pem.txt",
        ".docker/compose.json",
        "config.json",
        ".docker/x/config.json",
        ".kube/configs",
        ".codex/config.toml",
        "ssh/config",
    ],
)
def test_paths_that_only_look_alike_are_not_withheld(path: str) -> None:
    assert not path_form.is_sensitive(tuple(path.split("/")))


@requirement("R-13")
@given(name=st.sampled_from(["schlüssel.key", "é.pem", "ñ.p12"]), form=st.sampled_from(["NFC", "NFD"]))
def test_normalisation_hides_nothing(name: str, form: str) -> None:
    spelled = unicodedata.normalize("NFC" if form == "NFC" else "NFD", name)
    assert path_form.is_sensitive((spelled,))
