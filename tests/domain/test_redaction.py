import base64
import string
import time
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.domain.redaction import MARK, SHORTEST, redact

AWS_SECRET = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
JWT = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9"

# Each row: a line, and exactly what of it may be shown.
WITHHELD = [
    # headers
    ("Authorization: Bearer abc.def-123", "Authorization: [redacted]"),
    ("> authorization: token 0123456789", "> authorization: [redacted]"),
    (
        "curl -H 'Authorization: Bearer abcdefgh' https://x/y",
        "curl -H 'Authorization: [redacted]' https://x/y",
    ),
    ('{"Authorization": "Basic dXNlcjpwYXNz", "a": 1}', '{"Authorization": "[redacted]", "a": 1}'),
    ("sent Bearer abcdefgh1234 and got 401", "sent Bearer [redacted] and got 401"),
    ("Proxy-Authorization: Basic dXNlcjpwYXNz", "Proxy-Authorization: [redacted]"),
    ("< Set-Cookie: session=abc; Path=/", "< Set-Cookie: [redacted]"),
    ("X-Vault-Token: s.abcdef", "X-Vault-Token: [redacted]"),
    ("-H 'PRIVATE-TOKEN: abcd' -v", "-H 'PRIVATE-TOKEN: [redacted]' -v"),
    # environments, YAML, JSON
    ("PASSWORD=correct horse battery", "PASSWORD=[redacted]"),
    ("export SECRET_KEY=abc", "export SECRET_KEY=[redacted]"),
    ("+ export DB_PASSWORD=hunter2", "+ export DB_PASSWORD=[redacted]"),
    ("+ DB_PASS='correct horse' ./run --fast", "+ DB_PASS='[redacted]' ./run --fast"),
    ('Environment="API_TOKEN=abc"', 'Environment="API_TOKEN=[redacted]"'),
    ("password: correct horse battery", "password: [redacted]"),
    ("  - token: 'it''s'", "  - token: '[redacted]'"),
    ('  "client_secret" : "a \\"b\\" c",', '  "client_secret" : "[redacted]",'),
    ('{"token":"abc","host":"db1"}', '{"token":"[redacted]","host":"db1"}'),
    ('{\\"token\\":\\"abc\\",\\"x\\":\\"def\\"}', '{\\"token\\":\\"[redacted]\\",\\"x\\":\\"def\\"}'),
    ("{'secret': b'abc', 'port': 5432}", "{'secret': [redacted], 'port': 5432}"),
    ('"secrets": ["abc", "def"], "b": 1', '"secrets": [redacted], "b": 1'),
    ("config.apiKey => abc", "config.apiKey => [redacted]"),
    ("cannot log in: token=abc, host=db1", "cannot log in: token=[redacted], host=db1"),
    ("cannot log in with password:hunter2 again", "cannot log in with password:[redacted] again"),
    ("<Password>abc</Password>", "<Password>[redacted]</Password>"),
    ("//registry.example/:_auth=dXNlcg", "//registry.example/:_auth=[redacted]"),
    ("//registry.example.com/:_authToken=abc", "//registry.example.com/:_authToken=[redacted]"),
    ('  "auth": "dXNlcjpwYXNz"', '  "auth": "[redacted]"'),
    ("Server=x;Uid=sa;Pwd=a,b;Database=y", "Server=x;Uid=sa;Pwd=[redacted];Database=y"),
    # command lines
    ("login --password hunter2 --user bob", "login --password [redacted] --user bob"),
    ("--password=hunter2 --user bob", "--password=[redacted] --user bob"),
    ("./config.sh --url https://x --token abc", "./config.sh --url https://x --token [redacted]"),
    ("docker login ghcr.io -u bob -p hunter2", "docker login ghcr.io -u bob -p [redacted]"),
    ("mysql -u root -phunter2 -h db", "mysql -u root -p[redacted] -h db"),
    ("sshpass -p 'a b' ssh host", "sshpass -p '[redacted]' ssh host"),
    ("curl -u bob:hunter2 https://x", "curl -u bob:[redacted] https://x"),
    ("machine github.com login bob password hunter2", "machine github.com login bob password [redacted]"),
    ("CREATE USER a IDENTIFIED BY 'abc';", "CREATE USER a IDENTIFIED BY '[redacted]';"),
    (
        "az login --service-principal -u id -p hunter2 --tenant t",
        "az login --service-principal -u id -p [redacted] --tenant t",
    ),
    ("redis-cli -h db -a hunter2 ping", "redis-cli -h db -a [redacted] ping"),
    (
        "openssl pkcs12 -in x -passin pass:hunter2 -nodes",
        "openssl pkcs12 -in x -passin pass:[redacted] -nodes",
    ),
    ("openssl enc -aes-256-cbc -k hunter2 -in x", "openssl enc -aes-256-cbc -k [redacted] -in x"),
    ("+ echo 'root:hunter2' | chpasswd", "+ echo 'root:[redacted]' | chpasswd"),
    ("echo bob:hunter2 | sudo chpasswd -e", "echo bob:[redacted] | sudo chpasswd -e"),
    ("chpasswd <<< 'bob:hunter2'", "chpasswd <<< 'bob:[redacted]'"),
    ("+ PASS=hunter2 ./deploy", "+ PASS=[redacted] ./deploy"),
    ("+ SECRET=a\\ b ./deploy", "+ SECRET=[redacted] ./deploy"),
    # what people are told
    ("Your password is: hunter2", "Your password is: [redacted]"),
    (
        "A temporary password is generated for root@localhost: h/unter2",
        "A temporary password is generated for root@localhost: [redacted]",
    ),
    ("_auth=dXNlcg==", "_auth=[redacted]"),
    # colours are gone before anything is looked for
    ("PASSWORD\x1b[0m=hunter2", "PASSWORD=[redacted]"),
    ("\x1b[1mpass\x1b[0mword: \x1b[31mhunter2\x1b[0m", "password: [redacted]"),
    ("\x1b]0;title\x07TOKEN\x1b(B=hunter2", "TOKEN=[redacted]"),
    # URLs
    ("clone https://x-access-token:abcd@github.com/a/b.git", "clone https://[redacted]@github.com/a/b.git"),
    ("https://ghabcdefghijklmnop@github.com/a", "https://[redacted]@github.com/a"),
    ("postgres://u:p@ss@host:5432/db", "postgres://[redacted]@host:5432/db"),
    ("redis://:pa/ss@host:6379", "redis://[redacted]@host:6379"),
    (
        "https://a.blob.example/b?sv=1&sig=abc%2Bdef12&se=2",
        "https://a.blob.example/b?sv=1&sig=[redacted]&se=2",
    ),
    ("https://s3/x?X-Amz-Signature=0123456789&a=1", "https://s3/x?X-Amz-Signature=[redacted]&a=1"),
    ("https://hooks.slack.com/services/T0/B0/abc", "https://hooks.slack.com/services/[redacted]"),
    # shapes
    ("id AKIAIOSFODNN7EXAMPLE here", "id [redacted] here"),
    (f"key {AWS_SECRET} here", "key [redacted] here"),
    ("got ghp_abcdefghijklmnopqrst1234", "got [redacted]"),
    ("got ghs_abcdefghijklmnopqrst1234.", "got [redacted]."),
    ("got github_pat_11ABCDEFG0abcdefghijklmnop_x", "got [redacted]"),
    ("registered with AABF3JGZDX3P5PMEXLND6TS6FCWO6", "registered with [redacted]"),
    (f"got {JWT}", "got [redacted]"),
    ("got xoxb-123456789012-abcdefghij", "got [redacted]"),
    ("got npm_abcdefghijklmnopqrstuvwxyz0123456789", "got [redacted]"),
    ("got pypi-AgEIcHlwaS5vcmcCJGFiY2RlZmdoLWlqa2wtbW5vcC1xcnN0LXV2", "got [redacted]"),
    ("got AIzaSyA-abcdefghijklmnopqrstuvwxyz01234", "got [redacted]"),
    ("got FwoGZXIvYXdzEBYaDHVudGlsIHRoZSBlbmQ", "got [redacted]"),
    ("AccountName=a;AccountKey=abc+/==;End=x", "AccountName=a;AccountKey=[redacted];End=x"),
    ("root:$6$saltsalt$hashhashhash:19000:0", "root:$6$[redacted]:19000:0"),
    ("got muster_A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8S9t0", "got [redacted]"),
    ("process:l-0123456789abcdef01234567.0:abc", "process:l-0123456789abcdef01234567.0:[redacted]"),
]

HARMLESS = [
    "Digest: sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0bd822cd15d6c15b0f00a0",
    "HEAD is now at d5a1b8424b924eb69b37086bfe01d5a1b8424b92 Raise the limit",
    "container 4f5e6d7c8b9a0f1e2d3c4b5a69788796a5b4c3d2e1f00f1e2d3c4b5a69788796 started",
    "instance i-052962296ad0c7240 in eu-west-1, ami-0abcdef1234567890, subnet-0bb1c79de3EXAMPLE",
    "123e4567-e89b-12d3-a456-426614174000",
    "Setting up libsecret-1-0:amd64 (0.20.4-1) ...",
    "Collecting detect-secrets==1.5.0 tokenizers==0.15.2",
    "Get:7 http://archive.ubuntu.com/ubuntu jammy/main amd64 passwd amd64 1:4.8.1 [772 kB]",
    "pull ghcr.io/acme/my-token:v1.2.3 and vault-secret:latest",
    "uses: https://github.com/actions/checkout@v4",
    "GET https://registry.example.com:443/left-pad@1.3.0 200",
    "git@github.com:acme/x.git ssh://git@github.com/acme https://bob@host/x",
    "AccessDenied on arn:aws:secretsmanager:eu-west-1:123456789012:secret:prod/db",
    "sudo: root : TTY=unknown ; PWD=/root ; USER=root ; COMMAND=/bin/ls",
    "Access denied for user 'bob'@'10.0.0.1' (using password: YES)",
    "boot.sh: line 4: syntax error near unexpected token `newline'",
    "audit: type=1701 pid=42 sig=11 res=1",
    "muster-agent.service: Main process exited, code=exited, status=1/FAILURE",
    "docker run -p 8080:80 -u 1000:1000 nginx:1.25",
    'WWW-Authenticate: Bearer realm="https://auth.docker.io/token",service="registry"',
    "kubeadm join --discovery-token-ca-cert-hash sha256:abcdef --token-file /etc/k8s/token",
    "muster_heartbeats_written_total 42 and muster_operations_in_progress_by_kind 3",
    "npm_config_registry=https://registry.example.com npm_lifecycle_event=install",
    "max_tokens=4096 tokenizer=fast token_count: 12",
    "bearer authentication is required; basic authentication failed",
    "token: not found",
    "error: Token::parse at src/secret.rs:12:3, see secret://x",
    "/usr/lib/python3/dist-packages/Secret1/Token",
    "-----BEGIN CERTIFICATE-----",
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJl3dIeudNqd0DPMRD6OIh65tjkxFNOtGcWGB2gCgPhk root@ip-10-0-0-1",
    "[   12.345678] EXT4-fs (nvme0n1p1): mounted filesystem with ordered data mode",
    "passed=12 bypass: on compass keyboard=us monkey: 3",
    "# TOTAL: 12 PASS=12 FAIL=0 and pass: test_login",
    "the password is required; the password is: not set",
    "openssl rsa -passin file:/run/key -in x | tar -x",
    "redis-cli -h db ping && az login --identity",
]


@pytest.mark.parametrize(("line", "shown"), WITHHELD)
def test_a_secret_is_withheld_and_the_rest_of_its_line_stays(line: str, shown: str) -> None:
    assert redact(line) == shown


@pytest.mark.parametrize("line", HARMLESS)
def test_ordinary_diagnostics_stay_readable(line: str) -> None:
    assert redact(line) == line


@pytest.mark.parametrize(("line", "shown"), WITHHELD)
def test_what_was_redacted_once_stays_as_it_is(line: str, shown: str) -> None:
    assert redact(shown) == shown


# --- blocks -------------------------------------------------------------------------------------------------

BODY = ["MIIEpAIBAAKCAQEA7bq7u1", "Zm9vYmFyYmF6cXV4Zm9vYmFyYmF6cXV4", "c2hvcnQ="]


@pytest.mark.parametrize(
    "kind", ["RSA PRIVATE KEY", "PRIVATE KEY", "OPENSSH PRIVATE KEY", "PGP PRIVATE KEY BLOCK"]
)
@pytest.mark.parametrize("prefix", ["", "    ", "[   12.3] cloud-init[812]: "])
def test_a_private_key_is_withheld_line_by_line(kind: str, prefix: str) -> None:
    lines = ["before", f"-----BEGIN {kind}-----", *BODY, f"-----END {kind}-----", "after"]
    shown = redact("\n".join(prefix + line for line in lines)).split("\n")
    assert shown[:2] == [prefix + "before", prefix + lines[1]]
    assert shown[2:5] == [MARK] * 3
    assert shown[5].endswith(lines[5]) and shown[6] == prefix + "after"


def test_after_the_begin_of_a_key_that_never_ends_everything_is_withheld() -> None:
    shown = redact("before\n-----BEGIN RSA PRIVATE KEY-----\nabc\n\nnot base64 at all: x\nlast")
    assert shown == f"before\n-----BEGIN RSA PRIVATE KEY-----\n{MARK}\n\n{MARK}\n{MARK}"


def test_a_key_whose_begin_was_cut_off_is_withheld_back_to_its_first_line() -> None:
    lines = ["qk9", *BODY[:2], "-----END RSA PRIVATE KEY-----", "after"]
    assert redact("\n".join(lines)) == "\n".join([MARK] * 3 + ["-----END RSA PRIVATE KEY-----", "after"])
    shown = redact("\n".join(["an ordinary line", "another one", *lines[1:]])).split("\n")
    assert shown == ["an ordinary line", "another one", MARK, MARK, "-----END RSA PRIVATE KEY-----", "after"]


def test_a_key_in_one_line_is_withheld_and_so_is_the_next_one_on_it() -> None:
    one = "-----BEGIN PRIVATE KEY-----\\nMIIE\\n-----END PRIVATE KEY-----"
    shown = redact(f"first {one} second {one} end")
    assert "MIIE" not in shown and shown.count(MARK) == 2
    assert shown.startswith("first ") and " second " in shown and shown.endswith(" end")


def test_a_certificate_is_no_secret() -> None:
    body = "MIIDdzCCAl+gAwIBAgIEAgAAuTANBgkqhkiG9w0BAQUFADBaMQswCQYD"
    text = f"-----BEGIN CERTIFICATE-----\n{body}\n-----END CERTIFICATE-----"
    assert redact(text) == text


def test_a_yaml_block_under_a_secret_name_is_withheld_as_far_as_it_is_indented() -> None:
    text = "a: 1\n  token: |-\n    abc\n\n    def\n  other: |\n    shown\nb: 2"
    shown = f"a: 1\n  token: |-\n{MARK}\n\n{MARK}\n  other: |\n    shown\nb: 2"
    assert redact(text) == shown


def test_passwords_that_cloud_init_made_up_are_withheld() -> None:
    head = "Set the following 'random' passwords"
    text = f"ci-info: x\n{head}\nubuntu:abc123\nroot:def456\nCloud-init finished: ok"
    assert redact(text) == f"ci-info: x\n{head}\nubuntu:{MARK}\nroot:{MARK}\nCloud-init finished: ok"


# --- exact secrets ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "spelled",
    [
        "p@ss/w rd",
        quote("p@ss/w rd", safe=""),
        "p%40ss%2Fw+rd",
        base64.b64encode(b"p@ss/w rd").decode().rstrip("="),
    ],
)
def test_a_known_secret_is_found_however_it_is_spelled(spelled: str) -> None:
    assert redact(f"<{spelled}>", ["p@ss/w rd"]) == f"<{MARK}>"


def test_a_known_secret_of_several_lines_is_withheld_line_by_line() -> None:
    assert redact("a\nfirst\nsecond\nb", ["first\nsecond\n"]) == f"a\n{MARK}\n{MARK}\nb"


def test_the_longest_of_several_known_secrets_wins() -> None:
    assert redact("x abcdefgh x", ["abcd", "abcdefgh"]) == f"x {MARK} x"


def test_a_known_secret_inside_a_shape_or_around_an_assignment_leaves_nothing_of_either() -> None:
    assert redact("ghp_abcdefghijklmnopqrst1234", ["ijkl"]) == MARK
    assert redact("password=foo;bar=baz", ["foo;bar=baz"]) == f"password={MARK}"


def test_what_is_too_short_to_be_a_secret_shreds_nothing() -> None:
    short = "x" * (SHORTEST - 1)
    assert redact(f"a {short} b", [short, "", " "]) == f"a {short} b"
    long = "x" * SHORTEST
    assert redact(f"a {long} b", [long]) == f"a {MARK} b"


# --- properties ---------------------------------------------------------------------------------------------

secret_values = st.text(string.ascii_letters + string.digits, min_size=7, max_size=39).map("{}7".format)
"""With a digit, for `undefined` and the like are no secrets, and Hypothesis does think of them."""
names = st.sampled_from(
    ["password", "DB_PASSWORD", "SECRET_KEY", "api-key", "githubToken", "aws_session_token", "passphrase"]
)
forms = st.sampled_from(
    [
        "{name}={value}",
        "{name}: {value}",
        "x y {name} = '{value}' z",
        '{{"{name}":"{value}"}}',
        "cmd --{name} {value} rest",
        "export {name}={value}",
        "Authorization: Bearer {value}",
        "https://bob:{value}@host/path",
        "a {name} => {value}, b",
    ]
)
pieces = st.sampled_from(
    [*"abzA09 =:'\"\\/@.-_&;,[]{}|<>$\n\r\t", "token", "password", "secret", "://", "eyJ", "-----"]
)
texts = st.lists(pieces, max_size=60).map("".join) | st.text(max_size=60)


@given(name=names, value=secret_values, form=forms, around=st.sampled_from(["", "\n", "before\n"]))
def test_no_named_secret_comes_through(name: str, value: str, form: str, around: str) -> None:
    assert value not in redact(around + form.format(name=name, value=value) + around)


@given(text=texts, known=st.lists(st.text(min_size=SHORTEST, max_size=12), max_size=3))
def test_lines_stay_where_they_are_and_known_secrets_never_come_through(text: str, known: list[str]) -> None:
    shown = redact(text, known)
    assert shown.count("\n") == text.count("\n")
    for secret in known:
        raw = secret.strip()
        if len(raw) >= SHORTEST and raw not in MARK and "\n" not in raw:
            assert raw not in shown.replace(MARK, "\n")


@given(texts)
def test_redacting_again_changes_nothing(text: str) -> None:
    once = redact(text)
    assert redact(once) == once


@given(st.lists(st.sampled_from(HARMLESS), max_size=6))
def test_harmless_lines_are_harmless_together(lines: list[str]) -> None:
    assert redact("\n".join(lines)) == "\n".join(lines)


# --- time ---------------------------------------------------------------------------------------------------

MEAN = [
    *[
        "a",
        "password",
        "token=",
        'token="',
        "token:",
        "x/token:",
        "-",
        "--token ",
        "a-",
        ".-",
        "://",
        "://a:",
        "://a@",
    ],
    *[
        "eyJ",
        "eyJaaaaaaaaaaaaaaaaaaaaaaaa.",
        "-----BEGIN RSA PRIVATE KEY-----",
        " ",
        "\n",
        "\t=",
        "\\",
        '"',
        "'",
        "&a=",
    ],
    *[
        "sig=",
        ";a ",
        "docker login ",
        "mysql ",
        "login a ",
        "Authorization",
        "x-token",
        "bearer ",
        "ghp_",
        "A0",
        "aA0/",
    ],
    *[
        "$6$",
        "<token>",
        "<a",
        "-u a:",
        "[",
        "{",
        "secret[",
        "token: |\n ",
        "AKIA",
        "_auth",
        "a_pass",
        "password \t",
    ],
    *[
        "-----END PRIVATE KEY-----\nAAAAAAAAAAAAAAAAAAAAAAAA\n",
        "following 'random' passwords\n",
        ",a ",
        "A" * 60 + "\n",
    ],
]


@pytest.mark.parametrize("piece", MEAN)
def test_no_text_makes_it_slow(piece: str) -> None:
    """Twice the text, about twice the time: anything quadratic would take four times as long."""
    _time(piece, 1_000)
    small, large = min(_time(piece, 20_000) for _ in range(2)), _time(piece, 80_000)
    assert large < 10 * small + 0.05


def test_a_megabyte_of_everything_mean_is_done_in_seconds() -> None:
    size = 1_000_000 // len(MEAN)
    text = "\n".join((piece * (size // len(piece) + 1))[:size] for piece in MEAN)
    assert _spent(text) < 30.0


def _time(piece: str, size: int) -> float:
    return _spent((piece * (size // len(piece) + 1))[:size])


def _spent(text: str) -> float:
    started = time.process_time()
    redact(text)
    return time.process_time() - started


SPELLINGS = (
    "PASSWORD={}",
    "export DB_PASS='{}'",
    "password: {}",
    '{{"token":"{}","host":"db1"}}',
    "config.apiKey => {}",
    "password -> {}",
    "--token {}",
    "Authorization: Bearer {}",
    "Set-Cookie: sid={}; Path=/",
    "JSESSIONID={}",
    "postgresql://bob:{}@db/x",
    "Server=x;Uid=sa;Pwd={};Database=y",
    "<Password>{}</Password>",
    '<password value="{}"/>',
    '{{"name":"DB_PASSWORD","value":"{}"}}',
    "- name: DB_PASSWORD\n  value: {}",
    "ENV API_TOKEN {}",
    'conn.setPassword("{}")',
    "user=bob%26PASSWORD%3D{}",
    "GH_PAT={}",
    "REDISCLI_AUTH={}",
    "the password is {}",
    "echo {} | docker login -u bob --password-stdin",
    "htpasswd -bB users bob {}",
    "Kennwort: {}",
)


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_a_secret_is_withheld_in_each_of_its_25_spellings(spelling: str) -> None:
    assert len(set(SPELLINGS)) == 25
    secret = "hunter2Xyz9"
    shown = redact(spelling.format(secret))
    assert secret not in shown and MARK in shown


@pytest.mark.parametrize(
    "line",
    [
        "the password is wrong",
        "the password is required for sudo",
        "SyntaxError: Unexpected token '<'",
        'secrets "registry" not found',
        "PATH=/usr/bin PATTERN=x",
        "author=bob, pat: a name",
        "name: worker\n  value: 12",
        "PASS: 12 tests",
        "echo hello | tee file",
        "session_id is logged elsewhere",
        "set -euo pipefail",
        "key: value",
    ],
)
def test_words_that_only_look_alike_stay_readable(line: str) -> None:
    assert redact(line) == line
