"""The settings of EC2: the server's, and those of a template."""

from pathlib import Path

import pytest

from muster.config import Config, ConfigError, load
from muster.integrations.ec2.tables import TEMPLATE, Architecture

PEM = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
GOOD = 'image = "ami-0123456789abcdef0"\nsubnets = ["subnet-0123456789abcdef0"]\n'


def written(tmp_path: Path, text: str) -> Config:
    path = tmp_path / "muster.toml"
    path.write_text(text)
    return load(path)


def test_without_a_region_there_is_no_ec2() -> None:
    assert load().tables["ec2"].region == ""
    assert load(environment={"MUSTER_EC2_REGION": "eu-west-1"}).tables["ec2"].region == "eu-west-1"


def test_a_certificate_is_a_text_or_a_file(tmp_path: Path) -> None:
    (tmp_path / "region.pem").write_text(PEM)
    text = f"""[ec2.certificates]
eu-west-1 = '''
{PEM}'''
us-east-1 = "{tmp_path}/region.pem"
"""
    assert dict(written(tmp_path, text).tables["ec2"].certificates) == {"eu-west-1": PEM, "us-east-1": PEM}


def test_a_template_with_the_table_is_one_of_ec2(tmp_path: Path) -> None:
    more = 'architecture = "arm64"\ndisk_gib = 50\nsecurity_groups = ["sg-01234567"]\n'
    (spec,) = written(tmp_path, f"[templates.ci.ec2]\n{GOOD}{more}").templates
    ec2 = TEMPLATE.of(spec)
    assert spec.provider == "ec2"
    assert (ec2.architecture, ec2.disk_gib) == (Architecture.ARM64, 50)
    assert ec2.security_groups == ("sg-01234567",)


def test_the_example_is_a_good_one(tmp_path: Path) -> None:
    text = (Path(__file__).parents[2] / "examples" / "ec2.toml").read_text()
    (tmp_path / "region.pem").write_text(PEM)
    config = written(tmp_path, text.replace("/etc/muster/eu-west-1.pem", f"{tmp_path}/region.pem"))
    assert config.tables["ec2"].region == "eu-west-1" and "ec2" in config.templates[0].tables


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "[templates.ci]\nprovider = 'ec2'\n",
            "line 2 (templates.ci.provider): ec2 is required for the provider ec2",
        ),
        (f"[templates.ci]\nprovider = 'process'\n[templates.ci.ec2]\n{GOOD}", "and refused for any other"),
        ("[templates.ci.ec2]\n", "image must be given in [templates.ci.ec2]"),
        ("[templates.ci.ec2]\nimage = 'ami-01234567'\n", "subnets must be given in [templates.ci.ec2]"),
        (
            f"[templates.ci.ec2]\n{GOOD}imag = 'x'\n",
            "(templates.ci.ec2.imag): there is no imag; did you",
        ),
        (
            "[templates.ci.ec2]\nimage = 'x'\nsubnets = []\n",
            "(templates.ci.ec2.image): image must be an",
        ),
        (f"[templates.ci.ec2]\n{GOOD}hop_limit = 0\n", "line 4 (templates.ci.ec2.hop_limit)"),
        (f"[templates.ci.ec2]\n{GOOD}security_groups = 'sg-1'\n", "security_groups must be a list"),
        ("[templates.ci]\nec2 = 3\n", "ec2 is a table: write [templates.ci.ec2]"),
        ("[ec2]\ncertificates = 'x'\n", "certificates is a table: write [ec2.certificates]"),
        (
            "[ec2.certificates]\nx = '/no/such/file'\n",
            "certificates.x must be a certificate in PEM",
        ),
        ("[ec2]\nregoin = 'x'\n", "there is no regoin; did you mean region?"),
        ("[ec2]\nvisibility_window = 0\n", "visibility_window"),
    ],
)
def test_what_is_wrong_is_named_with_its_place(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        written(tmp_path, text)
    assert said in str(caught.value)
