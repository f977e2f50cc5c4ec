"""The shapes of secrets: literal prefixes, named values, headers, URLs and key blocks.

Every pattern runs in linear time: quantifiers over one character class are possessive or
bounded, and no two adjacent quantifiers can match the same text.
"""

import re

PLACEHOLDER = "[redacted]"

_BEFORE = r"(?<![A-Za-z0-9])"
_WORD = r"[A-Za-z0-9_]"
_DASH = r"[A-Za-z0-9_\-]"
_HEX = r"[0-9a-fA-F]"

# (name, literal prefix, pattern of what follows the prefix)
_PREFIXED: tuple[tuple[str, str, str], ...] = (
    ("openai, anthropic, openrouter, deepseek", "sk-", _DASH + "{16,}+"),
    ("stripe secret", "sk_live_", _WORD + "{8,}+"),
    ("stripe test secret", "sk_test_", _WORD + "{8,}+"),
    ("stripe restricted", "rk_live_", _WORD + "{8,}+"),
    ("stripe test restricted", "rk_test_", _WORD + "{8,}+"),
    ("stripe webhook", "whsec_", r"[A-Za-z0-9+/=]{16,}+"),
    ("github personal", "ghp_", _WORD + "{16,}+"),
    ("github oauth", "gho_", _WORD + "{16,}+"),
    ("github user", "ghu_", _WORD + "{16,}+"),
    ("github server", "ghs_", r"[A-Za-z0-9_.\-]{16,}+"),
    ("github refresh", "ghr_", _WORD + "{16,}+"),
    ("github fine-grained", "github_pat_", _WORD + "{20,}+"),
    ("gitlab personal", "glpat-", r"[A-Za-z0-9_.\-]{16,}+"),
    ("gitlab deploy", "gldt-", _DASH + "{16,}+"),
    ("gitlab runner", "glrt-", r"[A-Za-z0-9_.\-]{16,}+"),
    ("gitlab trigger", "glptt-", _DASH + "{16,}+"),
    ("slack token", "xox", r"[abceoprs](?:\.xox[bp])?-[A-Za-z0-9\-]{8,}+"),
    ("slack app", "xapp-", r"[A-Za-z0-9\-]{8,}+"),
    ("slack webhook", "hooks.slack.com/", r"(?:services|workflows|triggers)/[A-Za-z0-9/_\-]{8,}+"),
    ("discord webhook", "/api/webhooks/", r"[0-9]{6,24}/[A-Za-z0-9_\-]{16,}+"),
    ("aws access key", "AKIA", r"[A-Z0-9]{16}(?![A-Za-z0-9])"),
    ("aws session key", "ASIA", r"[A-Z0-9]{16}(?![A-Za-z0-9])"),
    ("aws bedrock", "ABSK", r"[A-Za-z0-9+/]{60,}+={0,2}"),
    ("alibaba", "LTAI", r"[A-Za-z0-9]{12,30}(?![A-Za-z0-9])"),
    ("google api key", "AIza", _DASH + "{30,}+"),
    ("google access token", "ya29.", r"[A-Za-z0-9_.\-]{16,}+"),
    ("google refresh token", "1//0", _DASH + "{24,}+"),
    ("google client secret", "GOCSPX-", _DASH + "{16,}+"),
    ("hugging face", "hf_", r"[A-Za-z0-9]{20,}+"),
    ("hugging face organisation", "api_org_", r"[A-Za-z0-9]{20,}+"),
    ("replicate", "r8_", r"[A-Za-z0-9]{20,}+"),
    ("groq", "gsk_", r"[A-Za-z0-9]{20,}+"),
    ("xai", "xai-", r"[A-Za-z0-9]{20,}+"),
    ("perplexity", "pplx-", r"[A-Za-z0-9]{20,}+"),
    ("tavily", "tvly-", _DASH + "{16,}+"),
    ("langsmith", "lsv2_", _WORD + "{20,}+"),
    ("pinecone", "pcsk_", _WORD + "{20,}+"),
    ("nvidia", "nvapi-", _DASH + "{20,}+"),
    ("npm", "npm_", r"[A-Za-z0-9]{20,}+"),
    ("pypi", "pypi-", _DASH + "{32,}+"),
    ("docker", "dckr_pat_", _DASH + "{16,}+"),
    ("rubygems", "rubygems_", r"[a-f0-9]{32,}+"),
    ("shopify", "shp", r"(?:at|ca|pa|ss)_[A-Za-z0-9]{16,}+"),
    ("sendgrid", "SG.", r"[A-Za-z0-9_\-]{12,64}+\.[A-Za-z0-9_\-]{16,}+"),
    ("mailgun", "key-", r"[0-9a-z]{32}(?![A-Za-z0-9])"),
    ("twilio key", "SK", _HEX + r"{32}(?![A-Za-z0-9])"),
    ("square access", "sq0", r"(?:atp|csp|idp)-[A-Za-z0-9_\-]{16,}+"),
    ("square production", "EAAA", _DASH + "{40,}+"),
    ("facebook", "EAAC", r"[A-Za-z0-9]{40,}+"),
    ("digitalocean personal", "dop_v1_", _HEX + "{32,}+"),
    ("digitalocean oauth", "doo_v1_", _HEX + "{32,}+"),
    ("digitalocean refresh", "dor_v1_", _HEX + "{32,}+"),
    ("databricks", "dapi", _HEX + r"{32}(?:-[0-9])?"),
    ("heroku", "HRKU-", _DASH + "{20,}+"),
    ("linear", "lin_api_", r"[A-Za-z0-9]{20,}+"),
    ("notion", "ntn_", r"[A-Za-z0-9]{20,}+"),
    ("figma", "figd_", _DASH + "{20,}+"),
    ("atlassian", "ATATT3", r"[A-Za-z0-9_\-=]{20,}+"),
    ("postman", "PMAK-", r"[A-Za-z0-9\-]{24,}+"),
    ("new relic", "NRAK-", r"[A-Z0-9]{20,}+"),
    ("grafana service", "glsa_", _WORD + "{20,}+"),
    ("grafana cloud", "glc_", r"[A-Za-z0-9+/=]{20,}+"),
    ("sentry organisation", "sntrys_", r"[A-Za-z0-9+/=_\-]{20,}+"),
    ("sentry user", "sntryu_", _HEX + "{32,}+"),
    ("vault service", "hvs.", _DASH + "{20,}+"),
    ("vault batch", "hvb.", _DASH + "{20,}+"),
    ("doppler", "dp.", r"(?:pt|st|ct|sa|scim|audit)\.[A-Za-z0-9_.\-]{20,}+"),
    ("supabase", "sbp_", _HEX + "{32,}+"),
    ("supabase secret", "sb_secret_", _DASH + "{16,}+"),
    ("planetscale", "pscale_", r"(?:tkn|pw|oauth)_[A-Za-z0-9_.\-]{20,}+"),
    ("age", "AGE-SECRET-KEY-1", r"[A-Z0-9]{20,}+"),
    ("fly", "FlyV1 ", r"[A-Za-z0-9_+/=,\-]{20,}+"),
    ("dropbox", "sl.", _DASH + "{60,}+"),
    ("1password", "ops_", r"[A-Za-z0-9_=\-]{60,}+"),
    ("okta", "SSWS ", _DASH + "{20,}+"),
    ("airtable", "pat", r"[A-Za-z0-9]{14}\.[a-f0-9]{40,}+"),
    ("telegram", ":AA", r"[A-Za-z0-9_\-]{30,}+"),
    ("json web token", "eyJ", r"[A-Za-z0-9_\-]{8,}+\.[A-Za-z0-9_\-]{4,}+(?:\.[A-Za-z0-9_\-]*+)*+"),
)

PREFIXED: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (
        prefix,
        re.compile((_BEFORE if prefix[0].isalnum() else "") + re.escape(prefix) + follows),
    )
    for _, prefix, follows in _PREFIXED
)
"""(literal that must be present, pattern of the whole secret)."""

_DASHED_UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
OTHERS: tuple[tuple[str, re.Pattern[str]], ...] = (
    (
        "PRIVATE KEY",
        re.compile(
            r"-{4,5} ?BEGIN [A-Z0-9 ]{0,40}?PRIVATE KEY(?: BLOCK)? ?-{4,5}(?:[^-]|-(?!---))*+"
            r"(?:-{4,5} ?END [A-Z0-9 ]{0,40}?PRIVATE KEY(?: BLOCK)? ?-{4,5})?"
        ),
    ),
    (
        ".atlasv1.",
        re.compile(r"(?<![A-Za-z0-9])[A-Za-z0-9]{8,24}\.atlasv1\.[A-Za-z0-9_=\-]{20,}+"),
    ),
    ("-us", re.compile(r"(?<![A-Za-z0-9])[0-9a-f]{32}-us[0-9]{1,2}(?![A-Za-z0-9])")),
    (
        "access-",
        re.compile(r"(?<![A-Za-z0-9])access-(?:sandbox|development|production)-" + _DASHED_UUID),
    ),
    (
        ".",
        re.compile(
            r"(?<![A-Za-z0-9_.\-])[MNO][A-Za-z0-9_\-]{23,27}\.[A-Za-z0-9_\-]{6}\."
            r"[A-Za-z0-9_\-]{27,40}(?![A-Za-z0-9_\-])"
        ),
    ),
)
"""Shapes without a literal prefix: key blocks, Terraform, Mailchimp, Plaid, Discord bots."""

_STRONG = (
    "password|passwd|passphrase|pass[_-]?code|pwd|secret|client[_-]?secret|api[_ -]?key|apikey"
    "|access[_-]?key|account[_-]?key|private[_-]?key|secret[_-]?key|signing[_-]?key"
    "|encryption[_-]?key|shared[_-]?access[_-]?(?:key|signature)|credentials?|mysql_pwd|pgpassword"
)
_WEAK = (
    "token|jwt|session[_-]?id|sessionid|csrf|xsrf|auth[_-]?key|signature|x-amz-credential|nonce"
    "|otp|sig|sid|pat|connection[_-]?string|dsn|webhook[_-]?url"
)
_SUFFIX = r"(?:[_-]?(?:base|hash|value|key|string|id|text|[0-9]{1,2})){0,2}"
_SEPARATOR = r"\\{0,4}[\"'`]?\]?[ \t]{0,4}(?::=|=>|=|:)[ \t]{0,4}"
_QUOTED = (
    r'\\{1,4}"[^"\n]*+"?'
    r"|\\{1,4}'[^'\n]*+'?"
    r'|[bru]?"(?:[^"\\\n]|\\.)*+"?'
    r"|[bru]?'(?:[^'\\\n]|\\.)*+'?"
)
_BARE = r"[^\s,;&\"'<>{}(|]++"

NAMED_STRONG = re.compile(
    rf"((?:{_STRONG}){_SUFFIX}{_SEPARATOR})({_QUOTED}|{_BARE})", re.IGNORECASE
)
NAMED_WEAK = re.compile(
    rf"((?<![A-Za-z])(?:[A-Za-z0-9]{{1,24}}[_-]){{0,3}}?(?:{_WEAK}){_SUFFIX}{_SEPARATOR}"
    rf"|(?:token|jwt|sessionid){_SUFFIX}{_SEPARATOR})({_QUOTED}|{_BARE})",
    re.IGNORECASE,
)
NAMED_HINTS_STRONG = ("pass", "pwd", "secret", "key", "credential", "sharedaccess")
NAMED_HINTS_WEAK = (
    "token", "jwt", "session", "csrf", "xsrf", "auth", "sig", "credential", "nonce", "otp",
    "sid", "pat", "connection", "dsn", "webhook",
)  # fmt: skip

FLAG = re.compile(
    r"((?<![A-Za-z0-9-])--?(?:[a-z]{1,16}-)?(?:password|passwd|pass|token|secret|api-?key|key-secret)"
    rf"[ \t]{{1,4}})({_QUOTED}|[^\s\-\"'][^\s\"']*+)",
    re.IGNORECASE,
)
"""A command-line option followed by its value, e.g. ``--password hunter2``."""

AUTHORIZATION = re.compile(
    r"((?:authorization|x-api-key|x-auth-token|x-access-token)" + _SEPARATOR + ")"
    rf"({_QUOTED}"
    r"|(?:digest|signature|aws4-hmac-sha256|hmac|oauth)[ \t][^\n]*+"
    r"|(?:[A-Za-z][A-Za-z0-9-]{1,20}[ \t]{1,4})?[^\s,;\"'<>]++)",
    re.IGNORECASE,
)
COOKIE = re.compile(
    r"((?<![A-Za-z])(?:set-)?cookies?" + _SEPARATOR + rf")({_QUOTED}|[^\n\"']++)", re.IGNORECASE
)
BEARER = re.compile(
    r"((?<![A-Za-z])(?:bearer|basic|negotiate)[ \t]{1,4})([A-Za-z0-9._~+/=\-]{8,}+)", re.IGNORECASE
)
URL_USER = re.compile(r"(://[^\s/:@\"'<>?#]{0,128}+:)([^\s/\"'<>]{1,256})(@)")
URL_TOKEN = re.compile(r"(://)([A-Za-z0-9_\-.~%]{16,256}+)(@)")
URL_SIGNED = re.compile(
    r"([?&](?:sig|signature|x-amz-signature|x-amz-security-token|x-goog-signature|key|code|auth"
    r"|pass|pw|access|token|jwt|secret)=)([^\s&#\"'<>]++)",
    re.IGNORECASE,
)
NAMED_RANDOM = re.compile(
    r"((?<=[A-Za-z0-9_\])])[\"']?[ \t]{0,2}[=:][ \t]{0,2}[\"']?)([A-Za-z0-9+/_\-]{24,}+={0,2})"
)
"""Any named value of at least 24 characters; redacted only when it looks random."""
