"""Text of an error made ready for matching: cut, trimmed of traceback frames, abstracted."""

import re
from itertools import islice

HEAD_CHARS = 2000
TAIL_CHARS = 2000
SIGNATURE_CHARS = 200

_TRACEBACK = "Traceback (most recent call last)"
_EXCEPTION_LINE = re.compile(
    r"^[A-Za-z_][\w.]{0,100}(?:Error|Exception|Timeout|Exit|Interrupt|Warning|Fault|Group|Expired)"
    r"(?::|\s*$)",
    re.MULTILINE,
)
_QUERY = re.compile(r"(://[^\s\"'?]{1,300})\?[^\s\"')>]{1,2000}")
_EXCEPTION_NAME = re.compile(
    r"\b[A-Za-z_][\w.]{0,80}(?:Error|Exception|Timeout|Exhausted|Denied|Exceeded|NotFound|Privileges?|Violation|Refused)\b"
)
_THREE_DIGITS = re.compile(r"(?<![\w.,-])[45]\d\d(?![\w,])(?!\.\d)")
_STATUS_BEFORE = re.compile(
    r"(?:(?:error|\bstatus(?:[ _]?code)?|\bhttp(?:/\d(?:\.\d)?)?|\bcode|\bfailed|\bfailure|"
    r"\brespon(?:d|ds|se)|\bresponded|\breturned|\breturns|\bgot|\bwith)[\"']?[\s:=(\[]{0,3}|"
    r"(?:^|\n)[\[(]?|(?<!\w)[\[(])$"
)
_STATUS_AFTER = re.compile(
    r"[:\s)-]{1,3}(?:bad |unauth|forb|not f|too m|resou|internal|serv|gate|conf|over|payment|"
    r"unproc|request|method|valid|rate|access|error|client error|[{<])"
)
_COUNTED = re.compile(
    r"\s?(?:tokens?|bytes|lines?|items|m?s\b|sec|min|px|char|rows|results|files|[kmg]b|%|/|records|"
    r"times|passed|tests|words)"
)
_ABSTRACT = re.compile(
    r"(?P<url>\b[a-z][a-z+.-]{1,10}://[^\s\"'<>)\]}]{1,400})"
    r"|(?P<str>\"[^\"\n]{0,200}\"|'[^'\n]{0,200}'|`[^`\n]{0,200}`)"
    r"|(?P<mail>\b[\w.+-]{1,64}@[\w-]{1,64}(?:\.[\w-]{1,64}){1,4})"
    r"|(?P<path>(?<![\w<])(?:[a-z]:\\|~?/)[\w.@+~%\\/-]{1,300})"
    r"|(?P<hex>\b0x[0-9a-f]{1,32}\b|\b(?=[a-f-]{0,40}\d)[0-9a-f][0-9a-f-]{7,63}\b)"
    r"|(?P<num>\d{1,32}(?:[.,:]\d{1,32}){0,8})"
    r"|(?P<id>\b[a-z]{1,40}(?:[_-][a-z]{1,40}){1,8}\b(?!:))"
)
_SPACES = re.compile(r"\s+")


def cut(text: str, head: int = HEAD_CHARS, tail: int = TAIL_CHARS) -> str:
    """``text``, or its first ``head`` and last ``tail`` characters when it is longer."""
    if len(text) <= head + tail:
        return text
    return f"{text[:head]}\n{text[-tail:]}"


def without_frames(text: str) -> str:
    """``text`` with a Python traceback's frames dropped: source lines mislead the matching."""
    start = text.find(_TRACEBACK)
    if start < 0:
        return text
    found = list(_EXCEPTION_LINE.finditer(text, start))
    if not found:
        return text
    causes = [text[m.start() :].split("\n", 1)[0] for m in found[:-1][:4]]
    parts = [text[:start], _TRACEBACK, *causes, text[found[-1].start() :]]
    return "\n".join(part for part in parts if part)


def without_queries(text: str) -> str:
    """``text`` with the query part of its URLs dropped: ``?timeout=30`` is no timeout."""
    return _QUERY.sub(r"\1", text) if "://" in text and "?" in text else text


def exception_names(text: str) -> tuple[str, ...]:
    """Names that look like exception types, in order of appearance, without modules."""
    if not ("rror" in text or "xc" in text or "imeout" in text or "NotFound" in text):
        return ()
    names = (m.group().rpartition(".")[2].lower() for m in _EXCEPTION_NAME.finditer(text))
    return tuple(dict.fromkeys(names))[:8]


def inner_statuses(lowered: str) -> tuple[int, ...]:
    """HTTP error statuses (400-599) that lower-case text speaks of, in order, at most four."""
    found: list[int] = []
    for match in islice(_THREE_DIGITS.finditer(lowered), 12):
        start, end = match.span()
        if _COUNTED.match(lowered, end):
            continue
        before = lowered[max(0, start - 18) : start]
        if _STATUS_BEFORE.search(before) or _STATUS_AFTER.match(lowered, end):
            found.append(int(match.group()))
    return tuple(dict.fromkeys(found))[:4]


def _replace(match: re.Match[str]) -> str:
    return f"<{match.lastgroup}>"


def signature(text: str) -> str:
    """Normalised text: equal for errors that differ only in names, numbers, paths and ids.

    Args:
        text: an error's text, any length; only its telling line is used.
    """
    lines = [line for line in without_frames(cut(text)).splitlines() if line.strip()]
    if not lines:
        return ""
    telling = lines[1] if lines[0].strip() == _TRACEBACK and len(lines) > 1 else lines[0]
    lowered = _SPACES.sub(" ", telling[: SIGNATURE_CHARS + 100].strip().lower())
    sign = _ABSTRACT.sub(_replace, lowered)[:SIGNATURE_CHARS]
    # Lone surrogates cannot be encoded, so they would break whoever stores the signature.
    return sign if sign.isascii() else sign.encode("utf-8", "replace").decode("utf-8")
