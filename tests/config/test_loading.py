from dataclasses import replace
from pathlib import Path

import pytest

from muster.config import Config, ConfigError, load
from muster.config.schema import LogFormat
from muster.domain.deadlines import Limits
from muster.domain.template import RESOURCE_CLASSES, ResourceClass, Reuse, Runtime, UsageClass
from muster.integrations.github.runtime import ephemeral
from muster.integrations.github.tables import TEMPLATE

FULL = '''
# a comment
[installation]
max_nodes = 50

[server]
host = "0.0.0.0"
port = 9000
public_url = "https://muster.example.com/"
data_dir = "/srv/muster"
log_format = "json"

[limits]
boot = 300
stale_after = 30.5

[process]
capacity = 8
isolation = "none"

[templates.ci]
provider = "process"
resource_class = "small"
usage = ["spot", "on-demand"]
boot_script = """
[not a table]
key = "not a key"
"""
min_idle = 2

[templates."gpu-large"]
reuse = "never"
instance_types = ["g5.*"]
'''


def _written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "muster.toml"
    path.write_text(text)
    return path


def _refused(tmp_path: Path, text: str) -> ConfigError:
    with pytest.raises(ConfigError) as refused:
        load(_written(tmp_path, text))
    assert str(refused.value).startswith("cannot use ")
    return refused.value


def test_without_anything_the_defaults_hold() -> None:
    config = load()
    assert replace(config, tables={}) == Config()
    assert (config.server.host, config.server.port) == ("127.0.0.1", 8420)
    assert config.server.loopback
    assert config.limits == Limits()


def test_a_file_is_read_whole(tmp_path: Path) -> None:
    config = load(_written(tmp_path, FULL))
    assert config.max_nodes == 50
    assert config.server.public_url == ("https://muster.example.com",)
    assert config.server.data_dir == Path("/srv/muster")
    assert config.server.log_format is LogFormat.JSON
    assert not config.server.loopback
    assert (config.limits.boot, config.limits.stale_after) == (300.0, 30.5)
    assert (config.tables["process"].capacity, config.tables["process"].isolation) == (8, "none")
    ci, gpu = config.templates
    assert ci.usage == (UsageClass.SPOT, UsageClass.ON_DEMAND)
    assert "not a key" in ci.boot_script
    assert (gpu.name, gpu.provider, gpu.reuse, gpu.runtime) == (
        "gpu-large",
        "process",
        Reuse.NEVER,
        Runtime.EXEC,
    )


def test_the_environment_goes_over_the_file_and_flags_over_that(tmp_path: Path) -> None:
    path = _written(tmp_path, FULL)
    environment = {"MUSTER_PORT": "9001", "MUSTER_HOST": "127.0.0.1", "MUSTER_RUN": "not ours"}
    config = load(path, environment=environment, flags={"port": 0, "host": None})
    assert (config.server.port, config.server.host) == (0, "127.0.0.1")
    assert load(path, environment=environment).server.port == 9001


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ("[server]\nprot = 1", 2, "there is no prot; did you mean port?"),
        ("\n\n[sevrer]\nport = 1", 3, "there is no sevrer; did you mean server?"),
        ("\n[templtes.ci]\nmax_nodes = 3", 2, "there is no templtes; did you mean templates?"),
        ("\n[templtes.ci]", 2, "there is no templtes; did you mean templates?"),
        ("\n[[templtes]]\nmax_nodes = 3", 2, "there is no templtes; did you mean templates?"),
        ("\ntempltes.ci.max_nodes = 3", 2, "there is no templtes; did you mean templates?"),
        ("[templates.ci]\nmax_node = 3", 2, "did you mean max_nodes?"),
        ("[templates.ci]\n\n# x\nhue = 3", 4, "there is no hue; known are"),
        ("[limits]\nboots = 3", 2, "did you mean boot?"),
        ("port = 1", 1, "there is no port"),
        ("[process]\ncapacity = -1", 2, "capacity must be a whole number from 0"),
        ('[process]\ncapacity = "many"', 2, "capacity must be a whole number"),
        ('[process]\nisolation = "some"', 2, "isolation must be one of auto, sandbox, none"),
        ('[templates.ci.process]\nhome = "mine"', 2, "home must be one of read-only, overlay"),
        ('[templates.ci.process]\nisolation = "none"', 2, "isolation must be one of any, sandbox"),
        (
            (
                "[templates.ci]\nprovider = 'external'\nruntime = 'service'\n"
                "[templates.ci.process]\nhome = 'overlay'"
            ),
            2,
            "process must be left out: it is for the provider process",
        ),
        ("[server]\nport = 70000", 2, "port must be a whole number from 0 to 65535"),
        ("[server]\nport = true", 2, "port must be"),
        ('[server]\npublic_url = "muster"', 2, "public_url must be a URL"),
        ('[server]\npublic_url = "http://x:99999"', 2, "public_url must be a URL"),
        ("[installation]\nmax_nodes = -1", 2, "max_nodes must be"),
        ("[limits]\nboot = 0", 2, "boot must be a number of seconds above 0"),
        ("[limits]\nstale_after = 10", 2, "stale_after must be at least 16"),
        ("[limits]\nboot = nan", 2, "boot must be"),
        ('[templates.ci]\nresource_class = "huge"', 2, "resource_class must be one of small"),
        ("[templates.ci]\nmin_idle = 30", 2, "min_idle must not exceed max_nodes"),
        ('[templates.ci]\nusage = "sometimes"', 2, "usage must be one of"),
        ("[templates.ci]\nusage = []", 2, "usage must name at least one"),
        ('[templates.ci]\ninstance_types = ["c[5]"]', 2, "instance_types must be"),
        ('[templates.ci]\nruntime = "java"', 2, "there is no runtime java; known are exec"),
        ("[templates.ci.deep]\nx = 1", 2, "there is no deep"),
        ("[server.deep]\nx = 1", 2, "there is no deep"),
        ("templates.ci.max_node = 3", 1, "did you mean max_nodes?"),
    ],
)
def test_what_cannot_be_used_is_refused_with_its_line(
    tmp_path: Path, text: str, line: int, says: str
) -> None:
    message = str(_refused(tmp_path, text))
    assert f"line {line} " in message
    assert says in message


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[server", "it is not TOML"),
        ("[server]\nport = 1\nport = 2", "it is not TOML"),
        ("server = 3", "server is a table"),
        ("templates = 3", "a template is a table"),
        ("[templates]\nci = 3", "a template is a table"),
        ('[templates."Not A Name"]\nmax_nodes = 3', "name must be"),
    ],
)
def test_a_file_of_the_wrong_shape_is_refused(tmp_path: Path, text: str, says: str) -> None:
    assert says in str(_refused(tmp_path, text))


def test_an_empty_template_takes_the_defaults(tmp_path: Path) -> None:
    (template,) = load(_written(tmp_path, "[templates.ci]\n")).templates
    assert (template.name, template.max_nodes) == ("ci", 20)


def test_a_missing_file_and_one_that_is_not_text_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file"):
        load(tmp_path / "none.toml")
    path = tmp_path / "binary.toml"
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="not TOML"):
        load(path)


@pytest.mark.parametrize("value", ["many", "-1", "70000", "1.5"])
def test_the_environment_is_checked_and_named(value: str) -> None:
    with pytest.raises(ConfigError, match=r"the environment \(MUSTER_PORT\): port must be"):
        load(environment={"MUSTER_PORT": value})


def test_limits_can_be_set_in_the_environment_and_a_mistyped_one_is_refused() -> None:
    assert load(environment={"MUSTER_LIMITS_STALE_AFTER": "33"}).limits.stale_after == 33.0
    with pytest.raises(ConfigError, match=r"\(MUSTER_LIMITS_STALE_AFTR\).*did you mean stale_after\?"):
        load(environment={"MUSTER_LIMITS_STALE_AFTR": "33"})
    with pytest.raises(ConfigError, match=r"\(MUSTER_LIMITS_STALE_AFTER\)"):
        load(environment={"MUSTER_LIMITS_STALE_AFTER": "soon"})


def test_services_on_the_server_s_own_machine_are_probed_only_while_others_can_not_reach_it() -> None:
    assert {"127.0.0.0/8", "10.0.0.0/8"} <= set(load().probes.allowed)
    open_to_all = load(flags={"host": "0.0.0.0", "public_url": "http://10.0.0.5:8420"})  # noqa: S104
    assert "10.0.0.0/8" in open_to_all.probes.allowed
    assert not {"127.0.0.0/8", "::1/128"} & set(open_to_all.probes.allowed)


def test_flags_are_checked_and_named() -> None:
    with pytest.raises(ConfigError, match="--public-url: public_url must be a URL"):
        load(flags={"public_url": "nonsense"})


# --- GitHub -----------------------------------------------------------------------------------------------

GITHUB = """
[github]
url = "https://github.example.com/"
app_id = 4711
private_key_file = "~/app.pem"
runner_version = "2.999.0"
runner_sha256 = "%s"

[trust.shop]
repository = "acme/*"
repository_id = 74
refs = ["refs/heads/main"]
workflows = [".github/workflows/ci.yml"]
events = ["push"]
templates = ["ci"]
resource_classes = ["xlarge"]
instance_types = ["c*"]

[templates.ci]
runtime = "github"
reuse = "never"

[templates.ci.runner]
scope = "acme"
group = "big"
labels = ["gpu"]
""" % ("AB" * 32)


def test_github_is_read_whole(tmp_path: Path) -> None:
    config = load(_written(tmp_path, GITHUB))
    assert config.tables["github"].configured
    assert (config.tables["github"].url, config.tables["github"].app_id) == (
        "https://github.example.com",
        "4711",
    )
    assert config.tables["github"].runner_sha256 == ("ab" * 32,)
    (rule,) = config.tables["trust"]
    assert (rule.name, rule.repository, rule.refs) == ("shop", "acme/*", ("refs/heads/main",))
    assert (rule.repository_id, rule.events) == (74, ("push",))
    assert rule.workflows == (".github/workflows/ci.yml",)
    assert (rule.resource_classes, rule.instance_types) == (("xlarge",), ("c*",))
    (ci,) = config.templates
    runner = TEMPLATE.of(ci)
    assert (runner.scope, runner.group, runner.labels) == ("acme", "big", ("gpu",))
    assert ephemeral(ci)


def test_a_token_of_github_comes_from_a_file_of_its_own_or_the_environment(tmp_path: Path) -> None:
    config = load(environment={"MUSTER_GITHUB_TOKEN": "a-secret"})
    assert config.tables["github"].token == "a-secret"
    assert "a-secret" not in repr(config)
    refused = _refused(tmp_path, '[github]\ntoken = "a-secret"\n')
    assert "token_file" in str(refused) and "a-secret" not in str(refused)


_SET = "[templates.ci]\nruntime = 'github'\n[templates.ci.runner]\n"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[github]\napp_id = 4711\n", "app_id and private_key_file must be given together"),
        ("[github]\napp_id = 1\nprivate_key_file = 'k'\ntoken_file = 't'\n", "exclude each other"),
        ("[github]\nrunner_sha256 = 'abc'\n", "must be a SHA-256"),
        ("[github]\nrunner_url = 'https://mirror/runner.tgz'\n", "{version}"),
        ("[github]\nurl = 'github'\n", "must be a URL"),
        ("[github]\ntokenfile = 't'\n", "did you mean token_file?"),
        ("[trust.shop]\ntemplates = ['ci']\n", "repository must be"),
        ("[trust.shop]\nrepository = '*/shop'\ntemplates = ['ci']\n", "all of one owner's"),
        ("[trust.shop]\nrepository = 'acme/shop'\n", "templates must name at least one template"),
        ("[trust.shop]\nrepository = 'acme/shop'\nrole = 'admin'\n", "role must be operator or viewer"),
        ("[trust.shop]\nrepo = 'acme/shop'\n", "there is no repo"),
        ("[trust.shop]\nrepository = 'acme/shop'\nrepository_id = 'x'\n", "repository_id must be"),
        ("[trust.shop]\nrepository = 'acme/shop'\nworkflows = ['ci.yml']\n", "workflows must be files like"),
        ("[trust.shop]\nrepository = 'acme/shop'\nevent = ['push']\n", "did you mean events?"),
        ("[trust]\nshop = 'acme/shop'\n", "write [trust.NAME]"),
        ("[templates.ci.runner]\nscope = 'acme'\n", "runner must be left out: it is for the runtime github"),
        ("[templates.ci]\nruntime = 'github'\nrunner = 'acme'\n", "write [templates.ci.runner]"),
        ("[templates.ci]\nruntime = 'github'\n[templates.ci.runner]\nscopes = 'a'\n", "mean scope?"),
        (
            "[templates.ci]\nruntime = 'github'\n[templates.ci.runner]\nephemeral = true\n",
            "reuse must be never",
        ),
        (f"{_SET}scale_set = 'muster-linux'\n", "scale_set must come with runner.scope"),
        (f"{_SET}scope = 'acme/shop'\nmax_runners = 3\n", "max_runners must come with runner.scale_set"),
        (f"{_SET}scope = 'acme/shop'\nmin_idle = 3\n", "min_idle must come with runner.scale_set"),
        (f"{_SET}scope = 'acme/shop'\nscale_set = 'a b'\n", "scale_set must be a label"),
        (f"{_SET}scope = 'acme/shop'\nscale_set = 'a'\nmax_runners = -1\n", "must be a whole number"),
        (
            f"{_SET}scope = 'acme/shop'\nscale_set = 'a'\nmin_idle = 2\nmax_runners = 1\n",
            "min_idle must not exceed runner.max_runners (1)",
        ),
        (
            f"{_SET}scope = 'acme/shop'\nscale_set = 'a'\nmin_idle = 21\n",
            "min_idle must not exceed max_nodes of the template (20)",
        ),
        (f"{_SET}scope = 'acme/shop'\nscale_set = 'a'\nephemeral = false\n", "serve one job each"),
        (f"{_SET}scope = 'acme/shop'\nscaleset = 'a'\n", "did you mean scale_set?"),
        ("[github]\nrunners_per_minute = 0\n", "runners_per_minute must be a whole number"),
    ],
)
def test_what_github_can_t_use_is_refused_with_its_line(tmp_path: Path, text: str, words: str) -> None:
    refused = str(_refused(tmp_path, text))
    assert words in refused and "muster.toml" in refused


def test_on_dynamodb_a_heartbeat_is_fresh_for_a_minute_and_no_less_may_be_asked_for(tmp_path: Path) -> None:
    priced = {"store": "dynamodb://muster?region=eu-central-1"}
    assert load(flags=priced).limits.stale_after == 60.0
    file = tmp_path / "muster.toml"
    file.write_text("[limits]\nstale_after = 59\n")
    with pytest.raises(ConfigError, match="stale_after must be at least 60"):
        load(file, flags=priced)
    assert load(file).limits.stale_after == 59.0


def test_silence_counts_after_four_beats_unless_it_is_said(tmp_path: Path) -> None:
    assert load(_written(tmp_path, "[limits]\nbeat_seconds = 10")).limits.stale_after == 40.0
    assert load(_written(tmp_path, "[limits]\nbeat_seconds = 2\nstale_after = 7")).limits.stale_after == 7.0
    environment = {"MUSTER_LIMITS_BEAT_SECONDS": "15", "MUSTER_LIMITS_BEATS_PER_SECOND": "1500"}
    limits = load(environment=environment).limits
    assert (limits.beat_seconds, limits.beats_per_second, limits.stale_after) == (15.0, 1500, 60.0)
    priced = {"store": "dynamodb://muster?region=eu-central-1"}
    assert load(_written(tmp_path, "[limits]\nbeat_seconds = 20"), flags=priced).limits.stale_after == 80.0


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("beat_seconds = 0.5", "beat_seconds must be at least 1"),
        ("beat_seconds = 61", "beat_seconds must be at most 60"),
        ("beat_seconds = 0", "beat_seconds must be a number of seconds above 0"),
        ("beat_seconds = 'often'", "beat_seconds must be a number of seconds"),
        (
            "beat_seconds = 10\nstale_after = 30",
            "must be at least 31: one flush and 3 heartbeats of 10 s",
        ),
        ("beats_per_second = 0", "beats_per_second must be"),
        ("beats_per_second = 0.5", "beats_per_second must be a whole number"),
    ],
)
def test_beats_that_can_t_be_kept_are_refused_with_their_line(tmp_path: Path, text: str, words: str) -> None:
    refused = str(_refused(tmp_path, f"[limits]\n{text}"))
    assert words in refused and "muster.toml" in refused


def test_a_class_can_have_another_size_for_all_templates(tmp_path: Path) -> None:
    text = "[classes.small]\ncpu = 2\n[templates.ci]\n[templates.other]"
    for spec in load(_written(tmp_path, text)).templates:
        assert spec.classes == (ResourceClass(name="small", cpu=2, memory_mib=1024),)
        assert spec.size("large") == RESOURCE_CLASSES["large"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[classes.smal]\ncpu = 2", "line 2 (classes.smal.cpu): there is no smal; did you mean small?"),
        ("[classes.small]\ncpus = 2", "there is no cpus; did you mean cpu?"),
        ("[classes.small]\ncpu = 0", "cpu must be"),
        ('[classes.small]\nmemory_mib = "2"', "memory_mib must be"),
        ("classes = 3", "write [classes.NAME]"),
    ],
)
def test_a_class_that_cannot_be_is_refused_with_its_line(tmp_path: Path, text: str, words: str) -> None:
    assert words in str(_refused(tmp_path, text))


def test_everything_that_is_wrong_with_a_file_is_told_at_once(tmp_path: Path) -> None:
    text = """
[limits]
boot = -3
stall_aftr = 7

[templates.one]
max_node = 3
min_idle = "two"

[templates.two]
resource_class = "huge"
min_idle = 30
stall_after = 1

[trust.mine]
role = "admin"
"""
    with pytest.raises(ConfigError) as wrong:
        load(_written(tmp_path, text))
    lines = str(wrong.value).splitlines()
    for number, told in (
        (3, "boot"),
        (4, "did you mean stall_after?"),
        (7, "did you mean max_nodes?"),
        (8, "min_idle"),
        (11, "resource_class"),
        (12, "min_idle must not exceed max_nodes (20)"),
        (13, "stall_after must be at least 15"),
        (16, ""),
    ):
        assert any(f"line {number} " in line and told in line for line in lines), (number, lines)
    assert len(lines) == len(set(lines)) == 8


def test_what_values_mean_together_is_not_told_of_a_template_that_cannot_be_read(tmp_path: Path) -> None:
    text = '[templates.ci]\nmax_nodes = "many"\nmin_idle = 30\n'
    with pytest.raises(ConfigError) as wrong:
        load(_written(tmp_path, text))
    assert "max_nodes" in str(wrong.value) and "min_idle" not in str(wrong.value)


def test_a_setting_that_does_not_exist_hides_nothing_else_of_its_template(tmp_path: Path) -> None:
    text = '[templates.ci]\nmax_node = 3\nresource_class = "huge"\n'
    with pytest.raises(ConfigError) as wrong:
        load(_written(tmp_path, text))
    assert "did you mean max_nodes?" in str(wrong.value) and "resource_class" in str(wrong.value)


def test_durations_are_read_as_on_the_command_line(tmp_path: Path) -> None:
    limits = '[limits]\nboot = "12m"\nstall_after = 90\n'
    text = f'{limits}[templates.ci]\nidle_timeout = "1h30m"\nrescue_window = "0s"\n'
    config = load(_written(tmp_path, text), environment={"MUSTER_LIMITS_LAUNCHING": "3m"})
    assert (config.limits.boot, config.limits.stall_after, config.limits.launching) == (720.0, 90.0, 180.0)
    (spec,) = config.templates
    assert (spec.idle_timeout, spec.rescue_window) == (5400.0, 0.0)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            '[limits]\nboot = "soon"',
            "line 2 (limits.boot): boot must be a number of seconds, or a duration like",
        ),
        ('[templates.ci]\nidle_timeout = "40d"', "line 2 (templates.ci.idle_timeout): idle_timeout must be"),
        ('[templates.ci]\nmax_runtime = "0s"', "must be a number of seconds above 0"),
    ],
)
def test_a_duration_that_cannot_be_used_names_its_line(tmp_path: Path, text: str, says: str) -> None:
    assert says in str(_refused(tmp_path, text))
