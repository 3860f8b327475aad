"""Boot scripts that go wrong: each provision ends with the reason, and nothing is left of the machine."""

from tests.e2e.site import Site, words_of


def test_a_script_that_fails_is_named_with_its_exit_code_and_last_words(site: Site) -> None:
    site.template("broken", boot_script="echo this is why >&2\nexit 3", rescue_window=0.0)
    end = site.provision(2, template="broken")
    assert end.status == "failed" and end.error is not None
    assert end.error.reason == "boot_script_failed"
    assert end.error.message and end.error.advice
    detail, *_ = [event.detail for event in site.feed() if (event.entity, event.name) == ("node", "fail")]
    assert "the boot script ended with 3" in detail and "this is why" in detail


def test_a_script_that_hangs_runs_into_the_templates_timeout(site: Site) -> None:
    site.template("hanging", boot_script="sleep 1000", provision_timeout=2.0, rescue_window=1.0)
    end = site.provision(1, template="hanging")
    assert end.status == "failed" and end.error is not None
    assert end.error.reason == "boot_timeout"
    (node,) = site.nodes("failed", template="hanging")
    assert node.deadline_source == "rescue_window", "the deadline after which it is condemned"


def test_what_a_script_leaves_behind_lives_with_the_node_and_ends_with_it(site: Site) -> None:
    site.template("forking", boot_script="setsid sleep 1000 >/dev/null 2>&1 &\n(sleep 1001 &)\n")
    operation = site.succeeded(site.provision(1, template="forking"))
    (node,) = site.members(operation)
    body = site.body(node)
    daemons = _sleeping(body.tree())
    assert len(daemons) == 2
    site.release(operation)
    again = site.succeeded(site.provision(1, run="again", template="forking"))
    assert [member.node_id for member in again.members] == [node.id]
    assert _sleeping(body.tree()) == daemons
    site.release(again)


def test_a_script_that_floods_boots_and_fills_no_disk(site: Site) -> None:
    site.template("flooding", boot_script="yes flood | head -c 200000000\necho done", provision_timeout=60.0)
    operation = site.succeeded(site.provision(1, template="flooding"))
    (node,) = site.members(operation)
    slot = site.body(node).slot.path
    size = sum(path.lstat().st_size for path in slot.rglob("*") if path.is_file())
    assert size < 70_000_000
    site.release(operation)


def _sleeping(pids: list[int]) -> list[int]:
    return [pid for pid in pids if b"sleep\x00100" in words_of(pid)]
