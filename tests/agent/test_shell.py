"""Real agents against a real server with scripted faults: joining, booting, outages, endings."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from muster.agent import agent
from tests.agent.plane import AGENT, PATIENCE, Handler, Plane, Running, Server, alive

Start = Callable[..., Running]
pytestmark = pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs /proc")


def booted(plane: Plane) -> None:
    plane.wait(lambda: {"booted": True} in plane.reports, "booted")


def failure(plane: Plane) -> str:
    plane.wait(lambda: any("failed" in report for report in plane.reports), "failed")
    return str(next(report["failed"] for report in plane.reports if "failed" in report))


def numbers(path: Path) -> list[int]:
    return [int(word) for word in path.read_text().split()]


# --- joining ------------------------------------------------------------------------------------------------


def test_the_proof_is_the_prefix_and_the_secret_from_the_descriptor_and_no_child_sees_it(
    plane: Plane, start: Start
) -> None:
    plane.boot["script"] = "env; cat /proc/$PPID/cmdline /proc/$PPID/environ; ls -l /proc/self/fd; exit 1"
    agent = start()
    text = failure(plane)
    assert plane.joins[0]["proof"] == "process:m-1:the-secret"
    assert "the-secret" not in text and "the-secret" not in agent.log
    assert "MUSTER_NODE=node-1" in text


def test_a_lost_reply_to_the_join_is_repeated_with_the_same_key(plane: Plane, start: Start) -> None:
    def lost(handler: Handler) -> bool:
        handler.drop()
        return True

    plane.fault("/join", lost, times=2)
    start()
    booted(plane)
    keys = {join["key"] for join in plane.joins}
    assert len(keys) == 1


def test_not_yet_is_asked_again_and_gone_powers_off(plane: Plane, start: Start, tmp_path: Path) -> None:
    def not_yet(handler: Handler) -> bool:
        handler.answer(503, {}, Retry_After="1")
        return True

    def gone(handler: Handler) -> bool:
        handler.answer(410, {"detail": "abandoned"})
        return True

    plane.fault("/join", not_yet)
    plane.fault("/join", gone)
    agent = start(poweroff=f"echo off > {tmp_path}/off")
    assert agent.wait() == 0
    assert (tmp_path / "off").read_text() == "off\n"
    assert "turned away (410): abandoned" in agent.log
    assert [path for _, path in plane.requests] == ["/join", "/join"]


def test_a_refused_machine_powers_off_and_says_why(plane: Plane, start: Start) -> None:
    def refused(handler: Handler) -> bool:
        handler.answer(403, {"detail": "joined already"})
        return True

    plane.fault("/join", refused)
    agent = start()
    assert agent.wait() == 0 and "joined already" in agent.log


def test_a_second_agent_in_the_same_directory_refuses_and_does_no_harm(plane: Plane, start: Start) -> None:
    plane.boot["script"] = "sleep 1000 & echo $! >daemon"
    first = start()
    booted(plane)
    second = start()
    assert second.wait() == 2 and "another agent" in second.log
    assert alive(numbers(first.folder / "home/daemon")[0]) and first.process.poll() is None


def test_garbage_from_the_server_is_no_answer(plane: Plane, start: Start) -> None:
    def garbage(handler: Handler) -> bool:
        handler.answer(200, b"<html>")
        return True

    def nonsense(handler: Handler) -> bool:
        handler.answer(200, {"version": "x", "directive": ["stop"]})
        return True

    plane.fault("/join", garbage)
    plane.fault("/report", nonsense)
    plane.fault("/desired", garbage)
    start()
    booted(plane)


# --- booting ------------------------------------------------------------------------------------------------


def test_the_exit_code_of_the_script_itself_decides_and_its_tail_is_told(plane: Plane, start: Start) -> None:
    plane.boot["script"] = "echo first; echo last words >&2; exit 7"
    start()
    text = failure(plane)
    assert text.startswith("the boot script ended with 7\n") and text.endswith("last words\n")


def test_a_script_with_an_interpreter_of_its_own_is_run_by_it(plane: Plane, start: Start) -> None:
    plane.boot["script"] = f"#!{sys.executable}\nimport sys; print('python', *sys.argv[1:]); sys.exit(5)"
    start()
    assert failure(plane) == "the boot script ended with 5\npython\n"


def test_an_interpreter_that_isnt_there_is_a_failure(plane: Plane, start: Start) -> None:
    plane.boot["script"] = "#!/no/such/shell\n"
    start()
    assert failure(plane).endswith("\ncannot start it: no interpreter: #!/no/such/shell")


def test_a_script_killed_by_a_signal_says_which(plane: Plane, start: Start) -> None:
    plane.boot["script"] = "kill -9 $$"
    start()
    assert failure(plane) == "the boot script was killed by signal 9\n"


def test_steps_are_reported_by_their_names(plane: Plane, start: Start) -> None:
    plane.boot["script"] = (
        "muster-agent step 'pull image'; muster-agent step unpack; muster-agent stepp 2>/dev/null"
    )
    start()
    plane.wait(lambda: {"phase": "boot_script", "step": "unpack"} in plane.reports, "steps")
    assert {"phase": "boot_script", "step": "pull image"} in plane.reports
    assert failure(plane).startswith("the boot script ended with 2")


def test_naming_a_step_outside_a_boot_script_says_so() -> None:
    env = {name: value for name, value in os.environ.items() if name != "MUSTER_STEPS"}
    done = subprocess.run([sys.executable, AGENT, "step", "x"], env=env, capture_output=True, check=False)
    assert done.returncode == 1 and b"cannot name a step" in done.stderr


def test_a_script_that_forks_away_is_done_when_its_main_process_is_and_its_daemon_lives_on(
    plane: Plane, start: Start
) -> None:
    plane.boot["script"] = (
        "(setsid sleep 1000 & echo $! >daemon; wait) & while ! [ -s daemon ]; do :; done; echo up"
    )
    agent = start()
    booted(plane)
    daemon = numbers(agent.folder / "home/daemon")[0]
    assert alive(daemon)
    plane.attach()
    plane.order("c1", "true")
    plane.ended("c1")
    plane.detach()
    plane.wait(lambda: {"detached": "as-1"} in plane.reports, "detached")
    assert alive(daemon)
    plane.tell("stop")
    assert agent.wait() == 0 and not alive(daemon)


def test_a_script_that_floods_is_bounded_on_disk_and_in_its_tail(plane: Plane, start: Start) -> None:
    plane.boot["script"] = "head -c 100000000 /dev/zero; printf end; exit 1"
    agent = start()
    text = failure(plane)
    assert text.endswith("end") and len(text) < 5000
    assert (agent.folder / "log").stat().st_size < 65 * 2**20
    assert plane.beats == sorted(plane.beats)


def test_a_script_that_hangs_still_beats_and_its_counter_stands_still_while_a_busy_one_grows(
    plane: Plane, start: Start
) -> None:
    plane.boot["script"] = "mkfifo gate; read line <gate; while :; do :; done"
    agent = start()
    plane.wait(lambda: len(plane.beats) >= 4, "beats")
    still = plane.beats[-1]
    assert plane.beats[-2] == still
    (agent.folder / "home/gate").write_text("go\n")
    plane.wait(lambda: plane.beats[-1] > still + 10, "a growing counter")
    plane.tell("stop")
    assert agent.wait() == 0


# --- the server goes away -----------------------------------------------------------------------------------


def test_the_server_away_while_a_command_runs_costs_nothing_but_time(
    plane: Plane, server: Server, start: Start
) -> None:
    agent = start()
    booted(plane)
    plane.attach()
    work = agent.folder / "work/as-1"
    plane.order("c1", "sh", "-c", "mkfifo gate; echo before; read x <gate; echo $x; exit 4")
    plane.wait(lambda: plane.output.get("c1") == b"before\n", "output")
    server.stop()
    (work / "gate").write_text("while away\n")
    server.restart()
    assert plane.ended("c1") == {"state": "exited", "exit_code": 4, "signal": None, "size": 18}
    assert plane.output["c1"] == b"before\nwhile away\n"
    assert agent.process.poll() is None and len(plane.joins) == 1


def test_a_server_that_forgot_the_token_is_joined_anew_and_the_command_goes_on(
    plane: Plane, start: Start
) -> None:
    agent = start()
    booted(plane)
    plane.attach()
    plane.order("c1", "sh", "-c", "mkfifo gate; echo up; read x <gate; echo $x")
    plane.wait(lambda: plane.output.get("c1") == b"up\n", "start")

    def forget() -> None:
        plane.tokens += 1

    plane.heard(forget)
    plane.wait(lambda: len(plane.joins) == 2, "a second join")
    (agent.folder / "work/as-1/gate").write_text("still here\n")
    assert plane.ended("c1")["exit_code"] == 0 and plane.output["c1"] == b"up\nstill here\n"
    assert plane.joins[0]["key"] == plane.joins[1]["key"]


def test_a_server_that_refuses_to_work_is_left_for_the_others(plane: Plane, server: Server) -> None:
    other = Server(plane)
    plane.tokens = 1
    link = agent.Link([server.url, other.url])
    asked = []

    def refuses(handler: Handler) -> bool:
        asked.append(handler.connection.getsockname()[1])
        handler.answer(503, {}, Retry_After="5")
        return True

    try:
        plane.fault("/beat", refuses)
        for _ in range(3):
            assert link.call("POST", "/beat", {"activity": 1}, "token-1")[0] == 200
        assert asked == [server.port] and link.servers[0] == other.url and len(plane.requests) == 4
        plane.fault("/beat", refuses, times=5)
        assert link.call("POST", "/beat", {"activity": 1}, "token-1") == (503, {}, 5.0)
        assert asked[1:] == [other.port, server.port], "each is asked once"
    finally:
        link.close()
        other.stop()


def test_it_fails_over_to_the_second_server_and_stays_there(
    plane: Plane, server: Server, start: Start
) -> None:
    other = Server(plane)
    try:
        start(server.url, other.url)
        booted(plane)
        server.stop()
        plane.stopped = False
        plane.attach()
        plane.order("c1", "echo", "hello")
        assert plane.ended("c1")["exit_code"] == 0 and plane.output["c1"] == b"hello\n"
        assert len(plane.joins) == 1
    finally:
        other.stop()


def test_lost_replies_are_repeated_and_do_no_harm(plane: Plane, start: Start) -> None:
    def after(handler: Handler) -> bool:
        """The server does its work, the answer is lost."""
        handler.answer = lambda *_, **__: handler.drop()  # type: ignore[method-assign]
        return False

    for path in ("/report", "/report", "/beat", "/desired", "/commands/c1/state", "/commands/c1/output"):
        plane.fault(path, after)
    agent = start()
    booted(plane)
    plane.attach()
    for path in ("/report", "/desired", "/commands/c1/state", "/commands/c1/output", "/commands/c1/state"):
        plane.fault(path, after)
    plane.order("c1", "sh", "-c", "echo $$ >>pids; echo out")
    plane.ended("c1")
    plane.wait(lambda: plane.output["c1"] == b"out\n", "output")
    assert len(numbers(agent.folder / "work/as-1/pids")) == 1


def test_a_poll_that_hangs_delays_no_heartbeat_and_no_news(plane: Plane, start: Start) -> None:
    release = threading.Event()

    def hang(handler: Handler) -> bool:
        release.wait(PATIENCE)
        handler.drop()
        return True

    plane.fault("/desired", hang)
    start()
    booted(plane)
    plane.attach()  # a beat tells of the new version; it is asked for on another connection
    count = len(plane.beats)
    plane.wait(lambda: len(plane.beats) > count + 3, "beats")
    release.set()


# --- endings ------------------------------------------------------------------------------------------------


def test_sigterm_kills_everything_cleans_up_and_exits_0(plane: Plane, start: Start) -> None:
    plane.boot["script"] = "setsid sleep 1000 & echo $! >daemon; cp daemon ../daemon"
    agent = start()
    booted(plane)
    plane.attach()
    plane.order("c1", "sh", "-c", "sleep 1000 & echo $! >../../child; echo up; wait")
    plane.wait(lambda: plane.output.get("c1"), "start")
    pids = numbers(agent.folder / "daemon") + numbers(agent.folder / "child")
    agent.process.send_signal(signal.SIGTERM)
    assert agent.wait() == 0
    assert not any(alive(pid) for pid in pids) and not (agent.folder / "work").exists()


def test_gone_ends_it(plane: Plane, start: Start) -> None:
    def gone(handler: Handler) -> bool:
        handler.answer(410, {})
        return True

    agent = start()
    booted(plane)
    plane.fault("/beat", gone)
    assert agent.wait() == 0


def test_the_dead_man_fires_without_any_server_and_kills_everything(start: Start, tmp_path: Path) -> None:
    agent = start("http://127.0.0.1:9", dead_man=1.0, poweroff=f"echo off >{tmp_path}/off")
    agent.wait()
    assert "dead man" in agent.log and (tmp_path / "off").exists()


def test_the_dead_man_needs_no_main_loop(plane: Plane, start: Start, tmp_path: Path) -> None:
    """The secret never comes, so the agent hangs before it even looked for the server."""
    reader, writer = os.pipe()
    argv = [sys.executable, str(AGENT), "run", "--dir", f"{tmp_path}/n", "--secret-fd", str(reader)]
    argv += ["--server", "http://127.0.0.1:9", "--dead-man", "1"]
    agent = subprocess.Popen(argv, stderr=subprocess.PIPE, pass_fds=[reader], start_new_session=True)
    _, text = agent.communicate(timeout=PATIENCE)
    os.close(reader)
    os.close(writer)
    assert agent.returncode == -signal.SIGKILL and b"dead man: not renewed" in text


def test_the_dead_man_is_renewed_by_the_server_and_fires_when_it_falls_silent(
    plane: Plane, server: Server, start: Start
) -> None:
    plane.boot["script"] = "setsid sleep 1000 & echo $! >../daemon"
    plane.desired["dead_man"] = 3
    agent = start(dead_man=30.0)
    booted(plane)
    server.stop()
    agent.wait()
    assert "dead man" in agent.log
    assert not alive(numbers(agent.folder / "daemon")[0])
