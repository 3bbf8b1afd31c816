"""Tests of what counts as a secret and what is left alone (30.5)."""

import pytest

from tests.requirements import requirement
from webcodex.core import redaction

KEY = "abcdEFGH01234567"
MARKERS = [
    f"Authorization: Bearer {KEY}",
    f"BEARER {KEY}",
    f"bearer {'._~+/=-' * 3}",
    *(f"use {prefix}abcd1234 now" for prefix in ("wc_pat_", "wc_oat_", "wc_ort_", "wc_oac_", "wc_acct_")),
    *(f"use {prefix}abcd1234 now" for prefix in ("wc_pair_", "wc_csec_", "wc_agent_", "WC_PAT_")),
    "client_secret=x",
    "client_secret : x",
    '{"client_secret": "x"}',
    '{\\"client_secret\\": \\"x\\"}',
    "CLIENT_SECRET='x'",
]
KEY_SHAPES = [
    f"sk-{KEY}",
    f"ghp_{KEY}",
    f"gho_{KEY}",
    f"ghs_{KEY}",
    f"github_pat_{KEY}",
    "xoxa-",
    "xoxb-1",
    "xoxp-1",
    "xoxr-1",
    "AKIA0123456789ABCDEF",
    "-----BEGIN RSA PRIVATE KEY-----\nMIIE",
    "-----BEGIN PRIVATE KEY-----",
    "token eyJhbGciOi.eyJzdWIi.c2ln in the log",
    f"glued{'eyJhbGciOi'}.b.c",
]
NEAR_MISSES = [
    "Add bearer token auth",
    "bearer 0123456789abcde",
    "rename client_secret",
    "rename client_secret to api_secret",
    "wc_agent_run_0123456789abcdef",
    "wc_agent_task_0123456789abcdef and wc_agent_task_attempt_0123456789abcdef",
    "wc_agent_abcd123",
    "wc_sess_UMrs5faxcnrRoga9",
    "sk-0123456789abcde",
    "ghp_short",
    "xoxc-1",
    "AKIA0123456789ABCDE",
    "AKIA0123456789abcdef",
    "-----BEGIN CERTIFICATE-----",
    "PRIVATE KEY----- before -----BEGIN",
    "eyJhbGciOi.eyJzdWIi",
    "eyJ..c",
    "eyJhbGciOi.eyJzdWIi.",
    "module a.b.c reads eyJ",
    "run /srv/app/bin --flag 'value' && ls ../x",
]
NAMED_SECRETS = [
    "API_KEY=abc",
    "password: x",
    "the token is abc",
    "--token=abc",
    '"access_token": "abc"',
    "AccessToken = abc",
    "x-api-key: abc",
    "db_PassWd:abc",
    "Authorization: Basic abc",
    "MY_PRIVATE-KEY  =  abc",
    "to_ken=abc",
    "token_ = abc",
    "aws_secret\n=\nabc",
    "`secret` is abc",
]
NOT_NAMED_SECRETS = [
    "fixed the tokenizer",
    "use observation tokens",
    "tokens: 5",
    "token",
    "token =",
    "token = \n ",
    "token is",
    "token issue",
    "the password isolated",
    "secretary: x",
    "a token for x = 1",
]


@requirement("S-21", "S-22", "S-75")
@pytest.mark.parametrize("text", MARKERS + KEY_SHAPES)
def test_one_credential_replaces_the_whole_instruction(text: str) -> None:
    assert redaction.instruction(f"before {text} after") == redaction.Kept(text="[redacted]", redacted=True)


@requirement("S-23", "S-75")
@pytest.mark.parametrize("text", MARKERS + KEY_SHAPES + NAMED_SECRETS)
def test_one_credential_or_named_secret_replaces_the_whole_message(text: str) -> None:
    assert redaction.message(f"before {text} after") == redaction.Kept(text="[redacted]", redacted=True)


@requirement("S-21")
@pytest.mark.parametrize("text", MARKERS + KEY_SHAPES)
def test_credential_is_found_at_the_very_start(text: str) -> None:
    assert redaction.holds_credential(text)


@requirement("S-22", "S-75")
@pytest.mark.parametrize("text", NEAR_MISSES + NAMED_SECRETS[:3])
def test_instruction_without_a_credential_is_kept_whole(text: str) -> None:
    assert redaction.instruction(text) == redaction.Kept(text=text, redacted=False)


@requirement("S-23", "S-75")
@pytest.mark.parametrize("text", NEAR_MISSES[:12] + NOT_NAMED_SECRETS)
def test_message_that_names_no_value_is_kept_whole(text: str) -> None:
    assert redaction.message(text) == redaction.Kept(text=text, redacted=False)


@requirement("S-24")
def test_name_that_holds_a_credential_is_not_kept() -> None:
    assert not redaction.keeps_name(f"feature/sk-{KEY}")
    assert redaction.keeps_name("feature/token=rotation")


@requirement("S-21", "S-23")
@pytest.mark.parametrize(
    "piece",
    [
        "eyJ",
        "eyJ.",
        "eyJ.a",
        "-----BEGIN ",
        "bearer ",
        "client_secret ",
        'client_secret"',
        "wc_pat_",
        "sk-",
        "token ",
        "token",
        "token '",
        "is ",
        "xox",
        " ",
        "\\",
    ],
)
def test_hostile_repetition_ends_in_linear_time(piece: str) -> None:
    # A quadratic rule would need hours here, and the run would be ended by its own timeout.
    text = piece * (200_000 // len(piece))
    assert redaction.message(text).redacted is redaction.message(piece * 40).redacted
