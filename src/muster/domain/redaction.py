"""Withhold secrets from a machine's text, line by line, and nothing else.

Owns every pattern of a secret. Each rule only says which parts of the text to withhold. The parts are joined
and replaced at once, so no rule depends on another. Every pattern is linear in the text: repetitions are
bounded or possessive, and none can start inside its own run. Refuses to guess by entropy: image digests, git
hashes, paths, versions and ids stay readable.

A value is withheld in four cases. (1) It is a known secret, in any of its encodings. (2) A word for a secret
names it: by = : => -> or %3D, in a call, a pair, an option, or after ENV, ARG and set. (3) It has the shape
of a well-known secret. (4) It stands where a well-known program takes one. A password in the middle of a
sentence is withheld only in quotes or with a digit in it.
"""

import base64
import json
import re
from collections.abc import Iterable, Iterator

from muster.domain.errors import MusterError
from muster.domain.text import without_escapes

MARK = "[redacted]"
SHORTEST = 4
"""Of an exact secret. A shorter one would shred the text and guard nothing."""
TOLD_MOST = 200

Span = tuple[int, int]


def redact(text: str, secrets: Iterable[str] = ()) -> str:
    """The text with every secret replaced by MARK and every line where it was. A terminal's escapes are gone:
    a colour between a name and its value would hide both."""
    text = without_escapes(text)
    spans = [*_known(text, secrets), *_in_blocks(text)]
    for start, end in _suspect_lines(text):
        for rule in _NAMED:
            spans.extend(_found(rule, text, start, end))
    for rule in _SHAPED:
        spans.extend(_found(rule, text, 0, len(text)))
    return "".join(_rebuilt(text, sorted(span for span in spans if span[0] < span[1])))


def told(error: Exception) -> str:
    """An error in one line, for operators to see. Every store can keep it: lone surrogates are replaced."""
    words = redact(error.public if isinstance(error, MusterError) else str(error)).partition("\n")[0]
    words = words.encode(errors="replace").decode()
    return f"{type(error).__name__}: {words}"[:TOLD_MOST] if words else type(error).__name__


def _rebuilt(text: str, spans: list[Span]) -> Iterator[str]:
    done = 0
    for start, end in _joined(spans):
        yield text[done:start]
        yield _BETWEEN_LINE_ENDS.sub(MARK, text[start:end])
        done = end
    yield text[done:]


def _joined(spans: list[Span]) -> Iterator[Span]:
    """Sorted spans, those that touch or overlap as one."""
    if not spans:
        return
    start, end = spans[0]
    for next_start, next_end in spans[1:]:
        if next_start > end:
            yield start, end
            start, end = next_start, next_end
        end = max(end, next_end)
    yield start, end


def _suspect_lines(text: str) -> Iterator[Span]:
    """Lines that may name a secret. Few do, and the rules about names are the slow ones."""
    end = -1
    while hint := _HINT.search(text, end + 1):
        start = text.rfind("\n", 0, hint.start()) + 1
        end = text.find("\n", hint.end())
        yield start, len(text) if end < 0 else end
        if end < 0:
            return


def _found(rule: re.Pattern[str], text: str, first: int, last: int) -> Iterator[Span]:
    for match in rule.finditer(text, first, last):
        start, end = match.span(match.lastgroup or 0)
        # The quotes around a value are no secret, and keep the line readable.
        if end - start > 1 and text[start] in _QUOTES and text[end - 1] == text[start]:
            start, end = start + 1, end - 1
        yield start, end


# --- secrets that are known -------------------------------------------------------------------------------


def _known(text: str, secrets: Iterable[str]) -> Iterator[Span]:
    forms = sorted(
        {form for secret in secrets for form in _forms(secret)}, key=lambda form: (-len(form), form)
    )
    if forms:
        for match in re.finditer("|".join(map(re.escape, forms)), text):
            yield match.span()


def _forms(secret: str) -> Iterator[str]:
    """A secret as it may be written down: each line of it, and as URLs, JSON and base64 spell it."""
    for line in {secret, *secret.splitlines()}:
        raw = line.strip()
        if len(raw) < SHORTEST or raw in MARK:
            continue
        encoded = base64.b64encode(raw.encode("utf-8", "surrogatepass")).decode().rstrip("=")
        yield from (raw, encoded, json.dumps(raw)[1:-1])
        escaped = _percent(raw)
        yield from (escaped, escaped.replace("%20", "+"))


def _percent(text: str) -> str:
    """As in a URL. Written out, because what knows about URLs also knows about networks."""
    return "".join(
        char
        if char.isascii() and (char.isalnum() or char in "-._~")
        else "".join(f"%{byte:02X}" for byte in char.encode("utf-8", "surrogatepass"))
        for char in text
    )


# --- secrets of several lines -----------------------------------------------------------------------------

_BEGIN = re.compile(r"-{4,5} ?BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?(?:-{4,5}| ----)?")
_END = re.compile(r"-{4,5} ?END [A-Z0-9 ]{0,40}PRIVATE KEY")
_KEY_LINE = re.compile(r"(?:^|[\s:])[A-Za-z0-9+/]{16,}+={0,2}\\?\s*$|^\s*$|Proc-Type:|DEK-Info:")
_PASSWORDS_FOLLOW = re.compile(r"following 'random' passwords", re.IGNORECASE)
_USER_PASSWORD = re.compile(r"(?:^|\s)[a-z_][a-z0-9_-]{0,31}:(?P<s>\S+)\s*$")


def _in_blocks(text: str) -> Iterator[Span]:
    """Private keys, also with their begin or end cut off; YAML blocks; passwords that cloud-init makes."""
    lines = list(_lines(text))
    number = 0
    while number < len(lines):
        start, end = lines[number]
        line = text[start:end]
        if "PRIVATE KEY" in line and (_BEGIN.search(line) or _END.search(line)):
            last, spans = _private_key(text, lines, number)
            yield from spans
            number = last
        elif line.rstrip().endswith(_BLOCK_SIGNS) and (block := _BLOCK.match(line)):
            last = _block_end(text, lines, number, len(block["indent"]))
            yield from lines[number + 1 : last + 1]
            number = last
        elif _PASSWORDS_FOLLOW.search(line):
            while number + 1 < len(lines) and (
                user := _USER_PASSWORD.search(text[slice(*lines[number + 1])])
            ):
                number += 1
                yield lines[number][0] + user.start("s"), lines[number][0] + user.end("s")
        number += 1


def _lines(text: str) -> Iterator[Span]:
    start = 0
    while (end := text.find("\n", start)) >= 0:
        yield start, end
        start = end + 1
    yield start, len(text)


def _private_key(text: str, lines: list[Span], number: int) -> tuple[int, list[Span]]:
    """What to withhold from the line that begins or ends a key on, and the last line that this covers."""
    start, end = lines[number]
    spans: list[Span] = []
    begin, over = _BEGIN.search(text, start, end), _END.search(text, start, end)
    if over and (begin is None or over.start() < begin.start()):
        spans.append((_cut_off_start(text, lines, number), over.start()))
        begin = _BEGIN.search(text, over.end(), end)
    while begin:
        over = _END.search(text, begin.end())
        if over is None:
            return len(lines) - 1, [*spans, (begin.end(), len(text))]
        spans.append((begin.end(), over.start()))
        while lines[number][1] < over.start():
            number += 1
        begin = _BEGIN.search(text, over.end(), lines[number][1])
    return number, spans


def _cut_off_start(text: str, lines: list[Span], number: int) -> int:
    """Where a key whose begin was cut off starts: before the lines that can only be its own."""
    first = number
    while first > 0 and _KEY_LINE.search(text[slice(*lines[first - 1])]):
        first -= 1
    # The first line of all may be the rest of one.
    return 0 if first == 1 else lines[first][0]


def _block_end(text: str, lines: list[Span], number: int, indent: int) -> int:
    last = number
    while last + 1 < len(lines):
        line = text[slice(*lines[last + 1])]
        if line.strip() and len(line) - len(line.lstrip()) <= indent:
            break
        last += 1
    return last


# --- names that say "secret" ------------------------------------------------------------------------------

_NAME = r"""(?:
    passwor[dt]s?|passwd|pass[_\- ]?phrase|passcode|kennwort|contrase[nñ]a|mot[_ ]de[_ ]passe
  | (?<![a-z])(?:pw|jwt|bearer|otp)(?=["']?[ \t]{0,2}[=:])
  | (?<![a-z])pat(?==) | (?<=_)pat(?=["']?[ \t]{0,2}[=:])
  | (?<=[_\-])auth(?=["']?[ \t]{0,2}=) | \bauth(?==) | (?<![a-z])(?:j|php|asp)?sess(?:ion)?_?id(?==)
  | (?:(?<=[_.\-])|db|root|admin|user|key|store|ssh|proxy|smtp|ldap|redis|mail|sudo)pass
  | \bpass(?==(?![0-9]{1,9}\b))
  | (?<=[_.;\-])pwd | (?-i:(?<=[a-z])Pwd|\b[Pp]wd(?=[ \t]{0,2}=))
  | secrets?|credentials?|token|cookie
  | (?:api|access|secret|private|encryption|signing|auth|account|shared|master|license|deploy|session|storage
      |client|ssh|subscription|instrumentation)[_.\- ]?key
  | client[_\-]key[_\-]data
  | (?<=["'])auth(?=["']) | (?<=[\s:]_)auth | (?<=^_)auth
)"""
_AFTER = r"""(?:_?[0-9]{1,3})?(?:\\{0,3}["'])?\]?[ \t]{0,8}"""
_HARMLESS = r"""(?!(?:
    (?:yes|no|true|false|null|none|nil|undefined|unset|missing|required|expired|invalid|empty|\*{1,16}
      |<[\w\ -]{1,30}>)[ \t]{0,8}(?:[,;)}\]]|$)
  | [|>][+\-]?[ \t]{0,8}$
  | not\ (?:found|set|provided|valid|specified|configured)\b
))"""
_QUOTED = r"""(?:[bBuUrRfF$]?"(?:[^"\\\n]|\\.)*+"?|[bBuUrRfF$]?'(?:[^'\\\n]|\\.)*+'?)"""
# A bare value ends at a blank, or where the next pair of a list, a query or a connection string begins.
_BARE = r"""(?:[^\s&;,"'\\]|&(?![\w.%\-]{1,40}=)|;(?![ \t]{0,3}[\w .\-]{1,40}=|\s|$)
    |,(?![\s"'}\]]|$|[\w .\-]{1,40}[=:])|\\[ ](?=\S)|\\(?!["'])|(?:\\{1,3})?["'](?![\s,;:}\])]|$))++"""
_ESCAPED = r"""\\{1,3}["'](?P<e>(?:[^"'\\\n]|\\(?!\\{0,2}["']))*+)"""
_VALUE = rf"""(?:{_ESCAPED}|(?P<s>
    {_QUOTED}(?:(?:{_QUOTED}|[\w$+/=.~!@\#%^*?\-]|\\.)++)?
  | [\[{{][^\]}}\n]*+[\]}}]?
  | {_BARE}
))"""

_QUOTES = "\"'"
_HINT = re.compile(
    "pass|pwd|secret|credential|token|cookie|key|auth|bearer|jwt|sess|kennwort|contrase|otp"
    r"|(?<![a-z])p(?:w|at)(?=[\"' \t]{0,3}[=:])",
    re.IGNORECASE,
)
_BETWEEN_LINE_ENDS = re.compile(r"[^\r\n]+")
_BLOCK_SIGNS = ("|", ">", "|-", ">-", "|+", ">+")
_FLAGS = re.IGNORECASE | re.MULTILINE | re.VERBOSE
_BLOCK = re.compile(
    rf"""(?P<indent>[ ]*)(?:-[ ])?["']?[\w.\-]{{0,60}}?{_NAME}["']?[ ]*:[ ]*[|>]""",
    re.IGNORECASE | re.VERBOSE,
)

_ASSIGNED = (
    # A whole line of an environment or a YAML file: the value may hold blanks.
    rf"""^[ \t]*+(?:-[ \t]+)?(?:(?:export|set|setenv|declare[ ]-x|ENV|ARG)[ \t]+)?
        ["']?(?:\w[\w.\-]{{0,60}}?)?{_NAME}{_AFTER}(?:=>|->|:=|=(?![=>])|:(?![:/=]))[ \t]{{0,8}}{_HARMLESS}
        (?P<s>[^\s"'\\\[{{][^\r\n]*+)""",
    # Anywhere: name=value, name: value, "name":"value", name => value.
    rf"""{_NAME}{_AFTER}
        (?:(?:=>|->|:=|=(?![=>])|%3[ADad])[ \t]{{0,8}}
          |(?:(?<=["']):|:(?=\\{{0,3}}["'])|:[ \t]{{1,8}})[ \t]{{0,8}})
        {_HARMLESS}{_VALUE}""",
    # name:value in one word, but not the tag of an image, nor a path, nor a name in a longer row of names.
    rf"""(?<![\w./:@\-])[\w.\-]{{0,40}}?{_NAME}:(?![:/=\s]|v?[0-9]+\.[0-9]|latest\b|[0-9]{{1,5}}(?![\w]))
        {_HARMLESS}{_VALUE}""",
    # --name value
    rf"""(?<![\w.\-])-{{1,2}}[\w.\-]{{0,40}}?{_NAME}[ \t]{{1,8}}(?!--?[A-Za-z]){_VALUE}""",
    # ENV name value, and what shells and Windows say instead.
    rf"""(?<![\w.\-])(?:ENV|ARG|setx?|setenv)[ \t]{{1,4}}[\w.\-]{{0,60}}?{_NAME}[ \t]{{1,4}}
        {_HARMLESS}{_VALUE}""",
    # A call with it, and an attribute of an element of that name.
    rf"""{_NAME}\([ \t]{{0,4}}(?P<s>{_QUOTED})""",
    rf"""<[\w:.\-]{{0,60}}?{_NAME}[ \t]{{1,4}}value=(?P<s>{_QUOTED})""",
    # A password in a sentence: quoted, or with a digit in it.
    r"""(?:password|passphrase)(?:[ ]is)?[ \t]{1,4}(?P<s>["'][^"'\n]{4,200}["'])""",
    r"""(?:password|passphrase)[ ]is[ ](?P<s>(?=[^\s0-9]{0,60}[0-9])[^\s]{4,200}+)""",
    # What people and set-up programs are told.
    rf"""password[ ](?:is|was[ ]set[ ]to):[ \t]{{1,8}}{_HARMLESS}{_VALUE}""",
    r"""password[ ]is[ ]generated[ ]for[ ]\S{1,100}:[ \t]{1,8}(?P<s>\S++)""",
    # user:password for chpasswd, and what openssl takes for one.
    r"""(?<![\w.\-])[\w.\-]{1,40}+:(?P<s>[^\s|"']{1,200}+)["']?[ \t]{0,4}\|[ \t]{0,4}(?:sudo[ \t]{1,4})?
        (?:/usr/sbin/)?chpasswd\b""",
    r"""\bchpasswd\b[^\n<]{0,40}<<<[ \t]{0,4}["']?[\w.\-]{1,40}+:(?P<s>[^\s"']++)""",
    r"""[ \t]-pass(?:in|out)?[ \t]{1,4}["']?pass:(?P<s>[^\s"']++)""",
    # <name>value</name>
    rf"""<[\w:.\-]{{0,60}}?{_NAME}>(?P<s>[^<\n]++)""",
    # Headers: everything up to the end of the line or of the string they are in.
    rf"""(?<![\w/:\-])(?:(?:proxy-)?authorization|(?:set-)?cookie|private-token
        |x-[\w\-]{{0,40}}?(?:token|key|secret|auth|signature))(?:\\{{0,3}}["'])?[ \t]{{0,8}}[:=][ \t]{{0,8}}
        (?:{_ESCAPED}|(?P<s>{_QUOTED}|[^"'\r\n]++))""",
)

# --- shapes that are secrets whatever their name ----------------------------------------------------------

_HEAD = r"(?<![A-Za-z0-9_\-])"
_SHAPES = (
    r"(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}(?![A-Za-z0-9])",  # AWS access key ids
    r"(?:FwoGZXIvYXdz|FQoGZXIvYXdz|IQoJb3JpZ2lu)[A-Za-z0-9/+=_%\-]{20,}+",  # AWS session tokens
    r"gh[opusr]_[A-Za-z0-9_]{16,}+",  # GitHub
    r"github_pat_[A-Za-z0-9_]{16,}+",
    r"[AB](?=[A-Z0-9]{0,27}[0-9])[A-Z0-9]{28}(?![A-Za-z0-9_\-])",  # a runner's registration token
    r"gl(?:pat|rt|dt|cbt|ptt|soat)-[A-Za-z0-9_.\-]{16,}+",  # GitLab
    r"eyJ[A-Za-z0-9_\-]{17,}+(?:\.[A-Za-z0-9_\-]*+){0,4}",  # JWT, and any JSON in base64
    r"LS0tLS1CRUdJTi[A-Za-z0-9+/=]{8,}+",  # PEM in base64
    r"xox[a-z](?:\.xox[a-z])?-[A-Za-z0-9\-]{8,}+",  # Slack
    r"xapp-[A-Za-z0-9\-]{8,}+",
    r"npm_[A-Za-z0-9]{30,}+",
    r"pypi-[A-Za-z0-9_\-]{40,}+",
    r"AIza[A-Za-z0-9_\-]{30,}+",  # Google
    r"ya29\.[A-Za-z0-9_\-]{16,}+",
    r"GOCSPX-[A-Za-z0-9_\-]{16,}+",
    r"(?:sk|rk|pk)_(?:live|test)_[A-Za-z0-9]{16,}+",  # Stripe
    r"SG\.[A-Za-z0-9_\-]{16,40}+\.[A-Za-z0-9_\-]{16,}+",  # SendGrid
    r"sk-(?=[A-Za-z0-9_\-]{0,60}[0-9])[A-Za-z0-9_\-]{20,}+",  # model providers
    r"hf_[A-Za-z0-9]{30,}+",
    r"dckr_(?:pat|oat)_[A-Za-z0-9_\-]{16,}+",
    r"do[opr]_v1_[a-f0-9]{32,}+",
    r"dapi[a-f0-9]{32}",
    r"hv[sbr]\.[A-Za-z0-9_\-]{20,}+",  # Vault
    r"AGE-SECRET-KEY-1[A-Z0-9]{16,}+",
    r"muster_(?=[a-z_]{0,40}[A-Z0-9\-])[A-Za-z0-9_\-]{32,}+",
)
_SHAPE = rf"{_HEAD}(?P<s>{'|'.join(_SHAPES)})"
_OTHERS = (
    r"(?i:\bbearer)[ \t]{1,4}(?!(?i:auth[a-z]{4,12}|credentials)\b)(?P<s>[A-Za-z0-9._~+/=\-]{8,}+)",
    r"(?i:\bbasic)[ \t]{1,4}(?=[A-Za-z0-9+/]{0,200}[0-9=])(?P<s>[A-Za-z0-9+/=]{8,}+)",
    r"(?<=hooks\.slack\.com/services/)(?P<s>[^\s\"']++)",
    # user:password@ in a URL. A password may hold a slash, but host:port/path@version has none.
    r"://(?P<s>[^\s/@:\"'<>]{0,256}+:(?![0-9]{1,5}/)[^\s@\"'<>]{0,256}+(?:@[^\s/@:?#\"'<>]{1,256}+(?=@))*+)(?=@)",
    r"://(?P<s>[^\s/@:\"'<>\[\]]{16,512}+)(?=@)",
    # A pair of name and value, also in two lines of YAML.
    (
        r"(?i:\b(?:name|key)[\"']?[ \t]{0,4}[:=][ \t]{0,4}[\"']?[\w.\-]{0,60}?"
        r"(?:passwor[dt]|passwd|passphrase|secret|token|credential|api_?key|access_?key|private_?key)[\"']?"
        r"[\s,]{1,20}[\"']?value[\"']?[ \t]{0,4}[:=][ \t]{0,4})(?P<s>\"[^\"\n]*+\"?|'[^'\n]*+'?|[^\s,}]++)"
    ),
    # Signed URLs.
    r"(?i:(?<![A-Za-z0-9_])(?:sig|signature|awsaccesskeyid))=(?P<s>[^\s&\"'<>;]{8,}+)",
    r"(?i:x-(?:amz|goog|ms)-(?:signature|credential|security-token))=(?P<s>[^\s&\"'<>;]{8,}+)",
    r"(?i:[?&](?:code|key|hmac|auth))=(?P<s>[^\s&\"'<>]{8,}+)",
    # AWS secret keys have no sign of their own: 40 characters of all three kinds, and nothing like a path.
    (
        r"(?<![A-Za-z0-9/+=._\-])(?=[a-z0-9/+]{0,39}[A-Z])(?=[A-Z0-9/+]{0,39}[a-z])(?=[A-Za-z/+]{0,39}[0-9])"
        r"(?![A-Za-z0-9]{0,39}/[a-z]{3,}/)(?P<s>[A-Za-z0-9+][A-Za-z0-9/+]{39})(?![A-Za-z0-9/+=._\-])"
    ),
    # Command lines and files with rules of their own.
    (
        r"(?<![\w.\-])(?:-u|--user|--proxy-user)[ \t=]{0,4}[\"']?[^\s:\"']{1,100}+:"
        r"(?![0-9]{1,10}\b)(?P<s>[^\s\"']++)"
    ),
    r"\blogin[ \t]+[^\s]{1,200}+[ \t]+password[ \t]+(?P<s>\S++)",
    (
        r"\b(?:docker|podman|nerdctl|helm|buildah|skopeo|oras|crane|az)[ \t]+(?:registry[ \t]+)?login\b"
        r"[^\n]{0,200}?[ \t]-p[ \t]{0,4}(?P<s>\S++)"
    ),
    (
        r"\becho[ \t]+(?:-n[ \t]+)?(?P<s>\"[^\"\n]*+\"|'[^'\n]*+'|[^\s|]++)[ \t]*\|[ \t]*(?:sudo[ \t]+)?"
        r"(?:[\w.\-]{1,40}+[ \t]+login\b[^\n|;]{0,200}?--password-stdin|sudo[ \t]+-S\b|passwd[ \t]+--stdin)"
    ),
    r"\bhtpasswd[ \t]+-[a-zA-Z]{0,8}b[a-zA-Z]{0,8}[ \t]+\S{1,200}+[ \t]+\S{1,100}+[ \t]+(?P<s>\S++)",
    r"\bldap(?:search|add|modify|delete|passwd|whoami)\b[^\n|;]{0,200}?[ \t]-w[ \t]{0,4}(?P<s>\S++)",
    r"\b(?:smbclient|mount\.cifs|rpcclient)\b[^\n|;]{0,200}?[ \t]-U[ \t]{0,4}[^\s%]{1,100}+%(?P<s>\S++)",
    r"\bredis-cli\b[^\n|;]{0,200}?[ \t]-a[ \t]{1,4}(?P<s>\S++)",
    r"\bopenssl[ \t]+enc\b[^\n|;]{0,200}?[ \t]-[kK][ \t]{1,4}(?P<s>\S++)",
    r"\bsshpass[ \t]+-p[ \t]{0,4}(?P<s>\"[^\"\n]*+\"?|'[^'\n]*+'?|\S++)",
    r"\bmysql(?:dump|admin)?\b[^\n|;]{0,200}?[ \t]-p(?P<s>[^\s]++)",
    r"(?i:\bidentified[ \t]+by[ \t]+)(?P<s>\"[^\"\n]*+\"?|'[^'\n]*+'?|\S++)",
    r"\$(?:1|2[aby]|5|6|7|y|gy|argon2(?:i|d|id))\$(?P<s>[^\s:\"']{8,}+)",  # hashed passwords
    r"\b[a-z0-9-]{1,63}:l-[0-9a-f]{24}\.[0-9]{1,6}:(?P<s>\S++)",  # what a machine of ours proves itself with
)

_NAMED = tuple(re.compile(pattern, _FLAGS) for pattern in _ASSIGNED)
_SHAPED = tuple(re.compile(pattern) for pattern in (_SHAPE, *_OTHERS))
