"""`muster service`: run the server as a systemd service of this machine."""

import grp
import os
import pwd
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from muster.cli import output
from muster.cli.exits import UsageProblem
from muster.cli.options import SettingsFile, Yes, confirm, find_settings_file

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Entry = TypeVar("Entry")
app = typer.Typer(help="Run the server as a systemd service.", no_args_is_help=True, add_completion=False)
NAME = "muster.service"
ACCOUNT = "muster"
BOOTED = Path("/run/systemd/system")
"""Is there while systemd runs this machine (sd_booted(3))."""
HIDDEN = (Path("/tmp"), Path("/var/tmp"))  # noqa: S108 — no file is made there
"""What `PrivateTmp=yes` hides from the service."""
STRANGER = 65534
Root = Annotated[
    Path,
    typer.Option("--root", metavar="DIR", help="Work below this directory, without systemctl.", hidden=True),
]
User = Annotated[
    bool, typer.Option("--user", help="For this user alone. (default: for the machine, if this is root)")
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a unit belongs, and how systemd is asked about it."""

    unit: Path
    user: bool
    live: bool
    """Whether systemd of this machine is meant."""

    def systemctl(self, *words: str) -> None:
        """Raises UsageProblem with what systemctl said."""
        if not self.live:
            return
        own = ["--user"] if self.user else []
        try:
            done = subprocess.run(  # noqa: S603 — our own words
                [shutil.which("systemctl") or "systemctl", *own, *words],
                capture_output=True,
                text=True,
                check=False,
                timeout=60,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise UsageProblem(f"cannot ask systemd: {error}; the unit is {self.unit}") from error
        if done.returncode:
            said = (done.stderr or done.stdout).strip()
            raise UsageProblem(f"cannot {' '.join(words)}: {said}; the unit is {self.unit}")


@app.callback()
def root() -> None:
    """Run the server as a systemd service."""


@app.command()
def install(
    *,
    file: SettingsFile = None,
    user: User = False,
    start: Annotated[bool, typer.Option("--start/--no-start", help="Start it now.")] = True,
    root: Root = Path("/"),
    yes: Yes = False,
) -> None:
    """Install the unit, enable it and start it. Nodes keep running when the service stops or restarts."""
    place = _place(user=user, root=root)
    settings, program = _existing(find_settings_file(file)), _program()
    if place.live:
        _expect_systemd()
        if not place.user:
            _expect_reach(program, settings)
    text = unit_text(program, settings=settings, user=place.user)
    if place.unit.exists() and place.unit.read_text(encoding="utf-8") != text:
        confirm(f"{place.unit} exists and differs. It will be replaced.", yes=yes)
    if place.live and not place.user:
        _make_account()
    place.unit.parent.mkdir(parents=True, exist_ok=True)
    place.unit.write_text(text, encoding="utf-8")
    place.systemctl("daemon-reload")
    place.systemctl("enable", *(["--now"] if start else []), NAME)
    words = f"installed {place.unit}" + (" and started it" if start and place.live else "")
    own = " --user" if place.user else ""
    output.show(
        {"unit": str(place.unit), "started": start and place.live},
        words,
        f"  look at it:   systemctl{own} status muster; journalctl{own} -u muster -f",
        f"  remove it:    muster service uninstall{own}",
    )


@app.command()
def uninstall(*, user: User = False, root: Root = Path("/"), yes: Yes = False) -> None:
    """Stop the service and remove its unit. Data and nodes stay: `muster down` ends the nodes."""
    place = _place(user=user, root=root)
    there = place.unit.exists()
    if there:
        confirm("The server will be stopped and its unit removed.", yes=yes)
        runs = BOOTED.is_dir()
        if runs:
            place.systemctl("disable", "--now", NAME)
        place.unit.unlink()
        if runs:
            place.systemctl("daemon-reload")
    words = f"removed {place.unit}" if there else f"nothing to remove: there is no {place.unit}"
    stays = (
        f"  what stays:   the user {ACCOUNT}, /var/lib/muster and /etc/muster",
        f"  remove these: rm -r /var/lib/muster /etc/muster; userdel {ACCOUNT}",
    )
    output.show({"unit": str(place.unit), "removed": there}, words, *(() if place.user else stays))


@app.command()
def show(*, file: SettingsFile = None, user: User = False) -> None:
    """Print the unit, and change nothing."""
    own = user or os.geteuid() != 0
    text = unit_text(_program(), settings=_existing(find_settings_file(file)), user=own)
    output.show({"unit": text}, text.rstrip("\n"))


def unit_text(program: "Sequence[str]", *, settings: Path | None, user: bool) -> str:
    """Return the unit.

    `KillMode=process` spares the nodes: they are children of the server, and outlive it. Namespaces stay
    allowed, because each job on this machine gets a sandbox of its own.
    """
    config = ["--config", str(settings.absolute())] if settings is not None else []
    arguments = [*program[1:], "serve", *config, "--log-format", "json"]
    # systemd replaces variables in arguments, and none in the program's path.
    command = [_word(program[0]), *(_word(each.replace("$", "$$")) for each in arguments)]
    hardening = [
        "NoNewPrivileges=yes",
        "PrivateTmp=yes",
        "ProtectSystem=full",
        "ProtectKernelModules=yes",
        "ProtectKernelLogs=yes",
        "ProtectClock=yes",
        "ProtectHostname=yes",
        "RestrictRealtime=yes",
        "RestrictSUIDSGID=yes",
        "LockPersonality=yes",
        "SystemCallArchitectures=native",
        "UMask=0077",
    ]
    account = [f"User={ACCOUNT}", f"Group={ACCOUNT}", "StateDirectory=muster", "StateDirectoryMode=0700"]
    data = [] if user else ["Environment=MUSTER_DATA_DIR=/var/lib/muster"]
    lines = [
        "[Unit]",
        "Description=Muster, a control plane that hands out ready compute",
        "After=network-online.target",
        "Wants=network-online.target",
        "",
        "[Service]",
        f"ExecStart={' '.join(command)}",
        "EnvironmentFile=-/etc/muster/environment"
        if not user
        else "EnvironmentFile=-%h/.config/muster/environment",
        *data,
        "Restart=always",
        "RestartSec=2",
        "KillMode=process",
        "TimeoutStopSec=30",
        "LimitNOFILE=65536",
        *([] if user else account),
        *([] if user else hardening),
        "",
        "[Install]",
        f"WantedBy={'default' if user else 'multi-user'}.target",
    ]
    return "\n".join(lines) + "\n"


def _word(text: str) -> str:
    """Return a word of a command line that systemd reads as exactly this text."""
    literal = text.replace("%", "%%")
    if re.fullmatch(r"[\w/.,:=@+%$-]+", literal):
        return literal
    escaped = literal.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def _place(*, user: bool, root: Path) -> Place:
    live = root == Path("/")
    own = user or os.geteuid() != 0
    home = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
    folder = home / "systemd" / "user" if own else Path("/etc/systemd/system")
    unit = folder / NAME if live else root / folder.relative_to("/") / NAME
    return Place(unit=unit, user=own, live=live)


def _existing(settings: Path | None) -> Path | None:
    """Return the settings file. Raises UsageProblem if it is not there: such a service would never start."""
    if settings is not None and not settings.is_file():
        raise UsageProblem(f"cannot use {settings}: there is no such file; write one with `muster init`")
    return settings


def _expect_systemd() -> None:
    """Raises UsageProblem where systemd does not run, before anything is changed."""
    if shutil.which("systemctl") is None or not BOOTED.is_dir():
        raise UsageProblem(
            "cannot install a service: systemd does not run this machine;"
            " run `muster serve` under your own supervisor (docs/install.md)"
        )


def _expect_reach(program: "Sequence[str]", settings: Path | None) -> None:
    """Raises UsageProblem if the service's user can't run the program or read the settings.

    Both are tried as that user, so that groups, links, access lists and the interpreter count as they will.
    """
    advice = (
        "keep settings in /etc/muster and install muster for all users (`pipx install --global`),"
        " or install a service of your own with --user"
    )
    tried = [("run", Path(program[0]), [*program, "--version"])]
    if settings is not None:
        tried.append(("read", settings.absolute(), ["cat", "--", str(settings.absolute())]))
    for verb, path, words in tried:
        if any(form.is_relative_to(each) for each in HIDDEN for form in (path, path.resolve())):
            why = f"it has a temporary directory of its own, and would not see {path}"
            raise UsageProblem(f"cannot install a service: {why}; {advice}")
        said = _complaint(words)
        if said:
            why = f"its user {ACCOUNT} can't {verb} {path} ({said})"
            raise UsageProblem(f"cannot install a service: {why}; {advice}")


def _complaint(words: "Sequence[str]") -> str:
    """Run a command as the service's user. Return why it failed, or nothing.

    A user who is yet to be made has the rights of a stranger, and those of the group if there is one.
    """
    account, named = _known(pwd.getpwnam), _known(grp.getgrnam)
    group = account.pw_gid if account else named.gr_gid if named else STRANGER
    try:
        done = subprocess.run(  # noqa: S603 — our own words
            list(words),
            user=account.pw_uid if account else STRANGER,
            group=group,
            extra_groups=os.getgrouplist(ACCOUNT, group),
            cwd="/",
            env={"PATH": os.defpath, "LC_ALL": "C"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            check=False,
            timeout=60,
        )
    except (OSError, subprocess.SubprocessError) as error:
        return str(error)
    return (
        "" if done.returncode == 0 else done.stderr.strip().rpartition("\n")[2] or f"exit {done.returncode}"
    )


def _program() -> "Sequence[str]":
    """Return this `muster`, which the service will run: its path, or the interpreter's and what it needs."""
    beside = Path(sys.executable).with_name("muster")
    return (str(beside),) if beside.exists() else (sys.executable, "-m", "muster.cli")


def _make_account() -> None:
    """Make the system's user that the service runs as, if it is missing."""
    if _known(pwd.getpwnam) is not None:
        return
    group = ["--user-group"] if _known(grp.getgrnam) is None else ["--gid", ACCOUNT]
    home = ["--home-dir", "/var/lib/muster", "--shell", "/usr/sbin/nologin"]
    words = ["useradd", "--system", *group, *home, ACCOUNT]
    try:
        subprocess.run(words, check=True, capture_output=True, text=True)  # noqa: S603 — our own words
    except (OSError, subprocess.CalledProcessError) as error:
        said = getattr(error, "stderr", "") or error
        raise UsageProblem(f"cannot make the user {ACCOUNT}: {str(said).strip()}") from error


def _known(look: "Callable[[str], Entry]") -> "Entry | None":
    """Return the entry of the service's user or group, if there is one."""
    try:
        return look(ACCOUNT)
    except KeyError:
        return None
