"""Redaction: secrets leave text and values before anything is stored, logged or sent."""

import base64
import binascii
import hashlib
import hmac
import json
import re
from collections.abc import Callable, Collection, Mapping
from itertools import pairwise
from typing import Any

from selfheal_rl.core.values import secret_shapes as shapes
from selfheal_rl.core.values.secret_shapes import PLACEHOLDER

_MAX_PASSES = 8
_MAX_DEPTH = 48
_MIN_CHANGES = 0.4
_MIN_RUN = 12
_PLAIN_WORD = re.compile(
    r"(?:none|null|nil|undefined|true|false|required|missing|invalid|expired|empty|is|not|must"
    r"|field|str|string|int|float|bool|the|a|an|was|and|or|unset|wrong|incorrect|optional)",
    re.IGNORECASE,
)
_SECRET_NAME = re.compile(
    r"(?:password|passwd|passphrase|passcode|pwd|secret|secretkey|apikey|accesskey|accountkey"
    r"|privatekey|signingkey|encryptionkey|sharedaccesskey|sharedaccesssignature|credentials?"
    r"|authorization|cookies?|setcookie|xapikey|sessionid|bearer)(?:base|hash|value|id|[0-9]{1,2})?$"
)
_TOKEN_NAME = re.compile(r"(?:token|jwt|csrf|xsrf|otp|auth|dsn|connectionstring)[0-9]{0,2}$")
_SCHEME = re.compile(
    r"(?:bearer|basic|token|digest|api-?key|signature|hmac|oauth|negotiate|aws4-hmac-sha256|ssws"
    r"|bot)",
    re.IGNORECASE,
)
_PUBLIC_IDS = ("req_", "call_", "toolu_", "msg_", "chatcmpl-", "resp_", "run_", "thread_", "/")
"""Starts of named values that are identifiers or paths, not secrets."""
_MARK = re.compile(re.escape(PLACEHOLDER))


def redact_text(text: str) -> str:
    """``text`` with every recognised secret replaced by ``[redacted]``.

    Idempotent, and linear in the length of the text. Known are some eighty shapes: key prefixes
    of providers, tokens, key blocks, headers, URLs with credentials, connection strings, cookies,
    values named like a secret, and named values that look random. The same object comes back
    when there is nothing to redact.

    Example:
        >>> redact_text("login failed: password=hunter2 for https://bob:pw@db.example/x")
        'login failed: password=[redacted] for https://bob:[redacted]@db.example/x'
    """
    for _ in range(_MAX_PASSES):
        redacted = _one_pass(text)
        if redacted == text:
            return text
        text = redacted
    return text


def redact_value(value: Any) -> Any:
    """A copy of a nested value with secrets redacted in texts, bytes and mapping keys.

    Under a key that names a secret (password, token, api_key, authorization, cookie, ...) every
    leaf but None and booleans becomes ``[redacted]``. Values nested deeper than 48 levels are
    replaced as a whole. Objects of other types are returned as they are.
    """
    return _redact(value, hide=False, weak=False, depth=0)


def is_secret_name(name: str) -> bool:
    """True when a value of this name is a secret, e.g. ``db_password`` or ``X-Api-Key``."""
    plain = _plain(name)
    return bool(_SECRET_NAME.search(plain) or _TOKEN_NAME.search(plain))


def shape_of(
    arguments: Mapping[str, Any], key: bytes, *, allow: Collection[str] = ()
) -> dict[str, dict[str, Any]]:
    """What a journal may know of a call's arguments: names, types, lengths and keyed hashes.

    Args:
        arguments: the call's arguments by name.
        key: the tenant's secret, at least 16 bytes. Equal values hash equal under one key and
            cannot be compared across keys.
        allow: names whose (redacted) values are kept.

    Returns:
        Per name ``{"type", "length" (of texts, bytes and containers), "hash" (32 hex digits)}``,
        with ``"value"`` for allowed names. A name of a secret has neither hash nor value.

    Raises:
        ValueError: the key is shorter than 16 bytes.
    """
    if len(key) < 16:
        raise ValueError(f"key has {len(key)} bytes: expected at least 16 random ones per tenant")
    return {redact_text(str(n))[:200]: _shape(str(n), v, key, allow) for n, v in arguments.items()}


def _shape(name: str, value: Any, key: bytes, allow: Collection[str]) -> dict[str, Any]:
    shape: dict[str, Any] = {"type": type(value).__name__}
    if isinstance(value, (str, bytes, Mapping, list, tuple, set, frozenset)):
        shape["length"] = len(value)
    if is_secret_name(name):  # even a keyed hash would let its holder test guesses of a password
        return shape
    digest = hmac.new(
        key, f"{name}\0{_canonical(value)}".encode("utf-8", "replace"), hashlib.sha256
    )
    shape["hash"] = digest.hexdigest()[:32]
    if name in allow:
        shape["value"] = redact_value(value)
    return shape


def _canonical(value: Any) -> str:
    """Equal text for equal JSON values; other objects by their ``repr``, if they have one."""
    try:
        return json.dumps(value, sort_keys=True, default=repr, ensure_ascii=False)
    except Exception:
        pass  # cyclic, too deep, keys that do not sort
    try:
        return repr(value)
    except Exception:
        return type(value).__name__


def _one_pass(text: str) -> str:
    lower = text.lower()
    if "://" in text:
        text = shapes.URL_USER.sub(_keep_ends, text)
        text = shapes.URL_TOKEN.sub(_url_token, text)
    if "=" in text or ":" in text:
        text = _named(text, lower)
    if "--" in text:
        text = shapes.FLAG.sub(_hide_named, text)
    if "bearer" in lower or "basic" in lower or "negotiate" in lower:
        text = shapes.BEARER.sub(_scheme, text)
    for literal, pattern in shapes.PREFIXED:
        if literal in text:
            text = pattern.sub(PLACEHOLDER, text)
    for literal, pattern in shapes.OTHERS:
        if literal in text:
            text = pattern.sub(PLACEHOLDER, text)
    return text


def _named(text: str, lower: str) -> str:
    if "authorization" in lower or "x-a" in lower:
        text = shapes.AUTHORIZATION.sub(_header, text)
    if "cookie" in lower:
        text = shapes.COOKIE.sub(_hide_named, text)
    if any(hint in lower for hint in shapes.NAMED_HINTS_STRONG):
        text = shapes.NAMED_STRONG.sub(_hide_named, text)
    if any(hint in lower for hint in shapes.NAMED_HINTS_WEAK):
        text = shapes.NAMED_WEAK.sub(_hide_weak, text)
    if "?" in text or "&" in text:
        text = shapes.URL_SIGNED.sub(lambda m: m[1] + PLACEHOLDER, text)
    return shapes.NAMED_RANDOM.sub(_hide_random, text)


def _split_quotes(value: str) -> tuple[str, str, str]:
    """(opening, content, closing) of a quoted or bare value; closing may be empty."""
    opening = re.match(r"\\*[bruBRU]?[\"']|", value)
    start = opening[0] if opening else ""
    if not start:
        core = value.rstrip(")]}.")
        if core.endswith(PLACEHOLDER[:-1]) and len(core) < len(value):
            core += "]"
        return "", core, value[len(core) :]
    quote = start.lstrip("bruBRU")
    end = quote if len(value) >= len(start) + len(quote) and value.endswith(quote) else ""
    return start, value[len(start) : len(value) - len(end)], end


def _rewrite(match: re.Match[str], keeps: Callable[[str], bool]) -> str:
    start, content, end = _split_quotes(match[2])
    if not content or _PLAIN_WORD.fullmatch(content) or keeps(content):
        return match[0]
    return match[1] + start + PLACEHOLDER + end


def _hide_named(match: re.Match[str]) -> str:
    if match[1][:3].lower() == "pwd" and _is_working_directory(match):
        return match[0]
    return _rewrite(match, lambda content: False)


def _is_working_directory(match: re.Match[str]) -> bool:
    """True for the shell's ``PWD=/path`` and the complaints of its command ``pwd: ...``."""
    before = match.string[match.start() - 1 : match.start()]
    alone = not (before.isalnum() or before in ("_", "-") or '"' in match[1] or "'" in match[1])
    return alone and (match[2].startswith("/") or match[1].endswith(": "))


def _hide_weak(match: re.Match[str]) -> str:
    return _rewrite(match, lambda content: not _secret_like(content))


def _hide_random(match: re.Match[str]) -> str:
    value = match[2]
    if value.startswith(_PUBLIC_IDS) or value.count("/") > 3 or not _looks_random(value):
        return match[0]
    return match[1] + PLACEHOLDER


def _header(match: re.Match[str]) -> str:
    start, content, end = _split_quotes(match[2])
    if not content or _PLAIN_WORD.fullmatch(content):
        return match[0]
    scheme, space, rest = content.partition(" ")
    keep = f"{scheme} " if space and rest.strip() and _SCHEME.fullmatch(scheme) else ""
    return f"{match[1]}{start}{keep}{PLACEHOLDER}{end}"


def _scheme(match: re.Match[str]) -> str:
    value = match[2]
    hidden = _secret_like(value) or (match[1].lower().startswith("basic") and _is_basic(value))
    return match[1] + PLACEHOLDER if hidden else match[0]


def _keep_ends(match: re.Match[str]) -> str:
    return match[1] + PLACEHOLDER + match[3]


def _url_token(match: re.Match[str]) -> str:
    return _keep_ends(match) if _secret_like(match[2]) else match[0]


def _is_basic(value: str) -> bool:
    try:
        return b":" in base64.b64decode(value.rstrip("=") + "=" * (-len(value.rstrip("=")) % 4))
    except (binascii.Error, ValueError):
        return False


def _secret_like(value: str) -> bool:
    """At least eight characters and not a mere word, number or sentence."""
    plain = _MARK.sub("", value)
    if len(plain) < 8 or " " in plain.strip():
        return False
    letters = sum(c.isalpha() for c in plain)
    digits = sum(c.isdigit() for c in plain)
    return letters >= 1 and (digits >= 1 or len(plain) >= 20)


def _looks_random(value: str) -> bool:
    """Upper case, lower case and digits that alternate as in a generated key, not as in words.

    In random base 62 neighbours differ in class with probability 1 - (26² + 26² + 10²)/62² = 0.62;
    names made of words, such as ``MyCompany/Some-Model-V3``, stay far below.
    """
    if max(map(len, re.split(r"[-_/+=]", value))) < _MIN_RUN:
        return False
    classes = [_char_class(c) for c in value if c.isalnum()]
    if len(set(classes)) < 3:
        return False
    changes = sum(a != b for a, b in pairwise(classes))
    return changes >= _MIN_CHANGES * (len(classes) - 1)


def _char_class(char: str) -> int:
    return 0 if char.isdigit() else 1 if char.isupper() else 2


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name[-64:].lower())


def _redact(value: Any, *, hide: bool, weak: bool, depth: int) -> Any:
    if value is None or isinstance(value, bool):
        return value
    if depth > _MAX_DEPTH:
        return PLACEHOLDER
    if isinstance(value, Mapping):
        return _redact_mapping(value, hide=hide, weak=weak, depth=depth)
    if isinstance(value, (list, tuple, set, frozenset)):
        items = [_redact(v, hide=hide, weak=weak, depth=depth + 1) for v in value]
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return type(value)(*items)
        kinds = (list, tuple, set, frozenset)
        return next(kind for kind in kinds if isinstance(value, kind))(items)
    if hide and not (weak and isinstance(value, (int, float))):
        if isinstance(value, str):
            return PLACEHOLDER if value else value
        return PLACEHOLDER.encode() if isinstance(value, bytes) else PLACEHOLDER
    if isinstance(value, str):
        return redact_text(value)
    if isinstance(value, bytes):
        text = value.decode("latin-1")
        redacted = redact_text(text)
        return value if redacted is text else redacted.encode("latin-1")
    return value


def _redact_mapping(
    mapping: Mapping[Any, Any], *, hide: bool, weak: bool, depth: int
) -> dict[Any, Any]:
    redacted: dict[Any, Any] = {}
    for key, value in mapping.items():
        name = redact_text(key) if isinstance(key, str) else key
        while name in redacted:
            name = f"{name}#"
        plain = _plain(key) if isinstance(key, str) else ""
        strong = bool(plain and _SECRET_NAME.search(plain))
        token = bool(plain and _TOKEN_NAME.search(plain))
        redacted[name] = _redact(
            value,
            hide=hide or strong or token,
            weak=(weak if hide else True) and not strong,
            depth=depth + 1,
        )
    return redacted
