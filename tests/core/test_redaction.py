"""Secrets never survive redaction, and redaction is idempotent, linear and sparing."""

import base64
import random
import string
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from selfheal_rl.core.values import is_secret_name, redact_text, redact_value, shape_of
from selfheal_rl.core.values.secret_shapes import PLACEHOLDER

ALNUM = string.ascii_letters + string.digits
UPPER = string.ascii_uppercase + string.digits
HEX = "0123456789abcdef"
KEY = b"k" * 32


def body(alphabet: str, low: int, high: int | None = None) -> st.SearchStrategy[str]:
    """Random text with at least a digit and a letter, as every generator makes in practice."""
    return st.text(alphabet, min_size=low - 2, max_size=(high or low + 20) - 2).map(
        lambda text: "a1" + text if "a" in alphabet else "A1" + text
    )


def prefixed(prefix: str, alphabet: str, low: int, high: int | None = None) -> Any:
    return body(alphabet, low, high).map(lambda text: (prefix + text, text))


PREFIXED = {
    "openai": prefixed("sk-", ALNUM, 48),
    "openai project": prefixed("sk-proj-", ALNUM + "-_", 40),
    "openai service account": prefixed("sk-svcacct-", ALNUM + "-_", 40),
    "anthropic": prefixed("sk-ant-api03-", ALNUM + "-_", 80),
    "openrouter": prefixed("sk-or-v1-", HEX, 64, 64),
    "stripe live": prefixed("sk_live_", ALNUM, 24),
    "stripe test": prefixed("sk_test_", ALNUM, 24),
    "stripe restricted": prefixed("rk_live_", ALNUM, 24),
    "stripe webhook": prefixed("whsec_", ALNUM, 32),
    "github personal": prefixed("ghp_", ALNUM, 36),
    "github oauth": prefixed("gho_", ALNUM, 36),
    "github server": prefixed("ghs_", ALNUM, 36),
    "github refresh": prefixed("ghr_", ALNUM, 36),
    "github fine-grained": prefixed("github_pat_", ALNUM + "_", 82),
    "gitlab": prefixed("glpat-", ALNUM + "-_", 20),
    "gitlab deploy": prefixed("gldt-", ALNUM + "-_", 20),
    "slack bot": prefixed("xoxb-", ALNUM + "-", 30),
    "slack user": prefixed("xoxp-", ALNUM + "-", 30),
    "slack app": prefixed("xapp-", ALNUM + "-", 40),
    "slack webhook": prefixed("https://hooks.slack.com/services/T0/B0/", ALNUM, 24),
    "discord webhook": prefixed("https://discord.com/api/webhooks/123456789/", ALNUM, 60),
    "aws access key": prefixed("AKIA", UPPER, 16, 16),
    "aws session key": prefixed("ASIA", UPPER, 16, 16),
    "google api key": prefixed("AIza", ALNUM + "-_", 35, 35),
    "google access": prefixed("ya29.", ALNUM + "-_", 60),
    "google client secret": prefixed("GOCSPX-", ALNUM + "-_", 28),
    "hugging face": prefixed("hf_", ALNUM, 34),
    "replicate": prefixed("r8_", ALNUM, 37),
    "groq": prefixed("gsk_", ALNUM, 52),
    "xai": prefixed("xai-", ALNUM, 80),
    "perplexity": prefixed("pplx-", ALNUM, 48),
    "tavily": prefixed("tvly-", ALNUM, 32),
    "langsmith": prefixed("lsv2_pt_", HEX, 32),
    "nvidia": prefixed("nvapi-", ALNUM + "-_", 64),
    "npm": prefixed("npm_", ALNUM, 36),
    "pypi": prefixed("pypi-", ALNUM + "-_", 100),
    "docker": prefixed("dckr_pat_", ALNUM + "-_", 27),
    "shopify": prefixed("shpat_", HEX, 32),
    "sendgrid": body(ALNUM, 43).map(lambda t: (f"SG.{'q' * 22}.{t}", t)),
    "mailgun": prefixed("key-", HEX, 32, 32),
    "square": prefixed("sq0atp-", ALNUM + "-_", 22),
    "digitalocean": prefixed("dop_v1_", HEX, 64, 64),
    "databricks": prefixed("dapi", HEX, 32, 32),
    "linear": prefixed("lin_api_", ALNUM, 40),
    "notion": prefixed("ntn_", ALNUM, 46),
    "figma": prefixed("figd_", ALNUM + "-_", 40),
    "postman": prefixed("PMAK-", HEX, 24),
    "new relic": prefixed("NRAK-", UPPER, 27),
    "grafana": prefixed("glsa_", ALNUM + "_", 40),
    "sentry": prefixed("sntrys_", ALNUM, 40),
    "vault": prefixed("hvs.", ALNUM + "-_", 90),
    "doppler": prefixed("dp.pt.", ALNUM, 43),
    "supabase": prefixed("sbp_", HEX, 40),
    "terraform": body(ALNUM, 60).map(lambda t: (f"a1b2c3d4e5f6g7.atlasv1.{t}", t)),
    "telegram": body(ALNUM + "-_", 33).map(lambda t: (f"123456789:AA{t}", t)),
    "jwt": body(ALNUM + "-_", 40).map(lambda t: (f"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIx{t}.{t}", t)),
    "age": prefixed("AGE-SECRET-KEY-1", UPPER, 58),
}

PASSWORD = st.text(ALNUM + "!$%*+-_^~#", min_size=8, max_size=40).map(lambda t: "zQ9" + t)
NAMED: dict[str, Callable[[str], str]] = {
    "env": "DB_PASSWORD={}".format,
    "env quoted": 'export API_KEY="{}"'.format,
    "aws secret": "aws_secret_access_key = {}".format,
    "json": '{{"client_secret": "{}", "n": 1}}'.format,
    "json in json": '{{\\"password\\": \\"{}\\"}}'.format,
    "python repr": "{{'api_key': '{}', 'x': 2}}".format,
    "keyword argument": "connect(user='bob', passwd='{}')".format,
    "yaml": "passphrase: {}".format,
    "url userinfo": "postgresql://app:{}@db.example:5432/main".format,
    "redis": "redis://:{}@cache.example/0".format,
    "query": "GET https://api.example/v1?api_key={}&page=2".format,
    "signed url": "https://blob.example/a?se=2030&sig={}".format,
    "odbc": "Server=db;Uid=app;Pwd={};Encrypt=yes".format,
    "azure storage": "DefaultEndpointsProtocol=https;AccountName=a;AccountKey={};x=y".format,
    "authorization": "Authorization: Bearer {}".format,
    "authorization token": "authorization: token {}".format,
    "authorization dict": "{{'Authorization': 'Bearer {}'}}".format,
    "bearer alone": "sent Bearer {} to the server".format,
    "api key header": "X-Api-Key: {}".format,
    "curl header": "curl -H 'Authorization: Bearer {}' https://x.example".format,
    "cookie": "Cookie: sid={}; theme=dark".format,
    "set-cookie": "set-cookie: session={}; HttpOnly".format,
    "yaml pwd": "db_pwd: {}".format,
    "json pwd": '{{"pwd": "{}"}}'.format,
    "flag": "psql --password {} -h db".format,
    "flag equals": "run --api-key={} now".format,
    "session id": "session_id={}".format,
    "refresh token": '"refresh_token": "{}"'.format,
    "digest": 'Authorization: Digest username="u", response="{}"'.format,
}
REPEATED = (
    *("a", "eyJ", "password", "password=", 'password:"', "://a:", "a=", "aA1-", "cookie:"),
    *("authorization: ", "token_", "\\", "'", "-", "-----BEGIN PRIVATE KEY-----", "--token "),
    "[redacted]",
)
SPICES = (
    *REPEATED,
    *("token: ", '"', "]", "[", "://", "@", ":", "Bearer ", "sk-", "&", "?", "AKIA", "api_key"),
    *("=", " ", "\n", "aA1" * 9, "a" * 30),
)
SURROUND = st.tuples(
    st.sampled_from(["", "error: ", "\n", "(", '"', "x ", "é ", "['"]),
    st.sampled_from(["", " failed", "\n", ")", '"', ", retry", "']"]),
)


def test_at_least_forty_shapes_are_covered() -> None:
    assert len(PREFIXED) + len(NAMED) >= 40


@pytest.mark.parametrize("shape", PREFIXED)
@settings(max_examples=25)
@given(data=st.data())
def test_prefixed_secret_never_survives(shape: str, data: st.DataObject) -> None:
    secret, core = data.draw(PREFIXED[shape])
    before, after = data.draw(SURROUND)
    redacted = redact_text(before + secret + after)
    assert core not in redacted
    assert core[2:12] not in redacted
    assert redact_text(redacted) == redacted


@pytest.mark.parametrize("shape", NAMED)
@settings(max_examples=40)
@given(data=st.data())
def test_named_secret_never_survives(shape: str, data: st.DataObject) -> None:
    alphabet_free = shape not in ("bearer alone", "url userinfo", "redis", "query", "signed url")
    secret = data.draw(PASSWORD if alphabet_free else body(ALNUM + "-_", 20))
    before, after = data.draw(SURROUND)
    redacted = redact_text(before + NAMED[shape](secret) + after)
    assert secret not in redacted
    assert secret[:8] not in redacted
    assert redact_text(redacted) == redacted


def test_a_named_value_that_looks_random_goes_whatever_its_name() -> None:
    rng = random.Random(3)
    survived = 0
    for _ in range(1_000):
        secret = "".join(rng.choices(ALNUM, k=32))
        survived += secret in redact_text(f"blob={secret}")
    # A key without a digit, or whose classes happen to alternate little, is told by no rule.
    assert survived <= 25


@pytest.mark.parametrize("kind", ["RSA ", "EC ", "OPENSSH ", "ENCRYPTED ", ""])
@pytest.mark.parametrize("cut", [False, True])
@pytest.mark.parametrize("newline", ["\n", "\\n"])
def test_private_key_goes_even_when_its_end_is_cut_off(kind: str, cut: bool, newline: str) -> None:
    lines = [f"-----BEGIN {kind}PRIVATE KEY-----", "MIIEpAIBAAKCAQEA7bq", "wXyZ0123+/=="]
    lines += [] if cut else [f"-----END {kind}PRIVATE KEY-----"]
    redacted = redact_text("loaded " + newline.join(lines))
    assert "MIIE" not in redacted
    assert "wXyZ" not in redacted
    assert redacted.startswith("loaded ")


def test_basic_credentials_are_recognised_by_decoding() -> None:
    secret = base64.b64encode(b"bob:swordfish").decode()
    assert secret not in redact_text(f"sent Basic {secret}")
    assert redact_text("basic authentication required") == "basic authentication required"


@given(
    st.lists(
        st.one_of(
            st.text(max_size=12),
            st.sampled_from(SPICES),
        ),
        max_size=14,
    )
)
def test_redaction_is_idempotent_on_any_text(parts: list[str]) -> None:
    redacted = redact_text("".join(parts))
    assert redact_text(redacted) == redacted


@pytest.mark.parametrize(
    "text",
    [
        "max_tokens=4096, tokens_used: 8000, context limit 8192",
        "Unexpected token: } at position 5",
        "Unexpected token '<', \"<!DOCTYPE \"... is not valid JSON",
        "KeyError: 'key'",
        "TypeError: login() missing 1 required positional argument: 'password'",
        "password: field required",
        "http://localhost:8080/users/@me",
        "connect ECONNREFUSED 127.0.0.1:5432",
        "commit 3f786850e387550fdab836ed7e6dc881de23001b",
        "id=550e8400-e29b-41d4-a716-446655440000",
        "request_id: req_011CSHoEeqs5C35K2UUqR7Fy",
        "HTTP 429 Too Many Requests; Retry-After: 30",
        'File "/usr/lib/python3.11/site-packages/httpx/_client.py", line 1027, in _send_single',
        "task-0123456789abcdef is late",
        "bash: line 1: pwd: -p: invalid option",
        "PWD=/home/agent",
        '"source": "MiaAI-Lab/DeepSeek-V3-Agents2026"',
        "model=meta-llama/Llama-3.1-8B-Instruct-Turbo",
        "class: MyCompanyServiceV2RequestHandlerFactory",
        "401 Unauthorized: invalid api key",
        "ModuleNotFoundError: No module named 'tokenizers'",
        "token: null",
        "",
    ],
)
def test_text_without_secrets_is_returned_as_it_is(text: str) -> None:
    assert redact_text(text) is text


@pytest.mark.parametrize(
    "unit",
    REPEATED,
)
def test_no_text_takes_more_than_linear_time(unit: str) -> None:
    """Linear work is done in under a second; quadratic work would outlast the suite's timeout."""
    redacted = redact_text(unit * (600_000 // len(unit)))
    assert redact_text(redacted) == redacted


def test_nested_values_keep_their_structure_and_lose_their_secrets() -> None:
    value = {
        "password": "hunter2",
        "user": {"X-Api-Key": 12345, "name": "bob", "tokens": 17, "token": 4},
        "headers": [("Authorization", "Bearer abc12345")],
        "cookies": {"sid": "abc", "n": [1, "two"]},
        "note": ("see postgres://a:b@h/x", b"api_key=abcdef"),
        "secret": None,
        "credentials": True,
        "ghp_" + "a1" * 18: 1,
    }
    redacted = redact_value(value)
    assert redacted["password"] == PLACEHOLDER
    assert redacted["user"] == {"X-Api-Key": PLACEHOLDER, "name": "bob", "tokens": 17, "token": 4}
    assert redacted["headers"] == [("Authorization", "Bearer [redacted]")]
    assert redacted["cookies"] == {"sid": PLACEHOLDER, "n": [PLACEHOLDER, PLACEHOLDER]}
    assert redacted["note"] == ("see postgres://a:[redacted]@h/x", b"api_key=[redacted]")
    assert redacted["secret"] is None
    assert redacted["credentials"] is True
    assert PLACEHOLDER in redacted
    assert value["password"] == "hunter2"


def test_a_value_that_contains_itself_ends() -> None:
    loop: dict[str, Any] = {}
    loop["again"] = loop
    assert PLACEHOLDER in str(redact_value(loop))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda child: st.lists(child, max_size=3) | st.dictionaries(st.text(max_size=8), child),
    max_leaves=12,
)


@given(JSON)
def test_redacting_a_value_twice_changes_nothing(value: Any) -> None:
    once = redact_value(value)
    assert redact_value(once) == once


@pytest.mark.parametrize("name", ["password", "DB_PASSWORD", "api-key", "x-api-key", "authToken"])
def test_secret_names(name: str) -> None:
    assert is_secret_name(name)


@pytest.mark.parametrize("name", ["key", "tokens", "max_tokens", "author", "keyboard", "city"])
def test_names_that_only_resemble_secrets(name: str) -> None:
    assert not is_secret_name(name)


def test_shapes_tell_names_types_and_lengths_but_no_values() -> None:
    shape = shape_of({"city": "Bern", "days": 3, "ids": [1, 2], "password": "Bern"}, KEY)
    assert (shape["city"]["type"], shape["city"]["length"]) == ("str", 4)
    assert "length" not in shape["days"]
    assert shape["ids"]["length"] == 2
    assert "hash" not in shape["password"]
    assert "Bern" not in str(shape)


def test_hashes_are_equal_for_equal_values_of_one_tenant_only() -> None:
    one, two = shape_of({"a": "x"}, KEY), shape_of({"a": "x"}, KEY)
    other_value, other_tenant = shape_of({"a": "y"}, KEY), shape_of({"a": "x"}, b"z" * 32)
    assert one == two
    assert one["a"]["hash"] != other_value["a"]["hash"]
    assert one["a"]["hash"] != other_tenant["a"]["hash"]


def test_allowed_values_are_kept_redacted_and_never_under_a_secret_name() -> None:
    arguments = {"city": "Bern", "note": "token=abcd1234efgh", "password": "p"}
    shape = shape_of(arguments, KEY, allow=("city", "note", "password"))
    assert shape["city"]["value"] == "Bern"
    assert shape["note"]["value"] == "token=[redacted]"
    assert "value" not in shape["password"]


def test_a_short_key_is_refused() -> None:
    with pytest.raises(ValueError, match="16"):
        shape_of({}, b"short")


def test_arguments_that_are_no_json_have_a_shape_too() -> None:
    class Rude:
        def __repr__(self) -> str:
            raise RuntimeError

    loop: list[Any] = []
    loop.append(loop)
    arguments = {"loop": loop, "rude": Rude(), "keys": {(1, 2): 3, "a": 4}, "bad": "\ud800"}
    shape = shape_of(arguments, KEY)
    assert {name: len(entry["hash"]) for name, entry in shape.items()} == dict.fromkeys(
        arguments, 32
    )
