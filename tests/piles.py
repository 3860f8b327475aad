"""Which tests `make test` runs, and in which order workers run them.

Long ones come first, and those that wait run beside those that compute.

pytest-xdist cuts the collection into one stretch per worker; who is done takes from the end of another's. So
the order is a pile per worker, with its share of the long tests on top and of the many quick ones below.
"""

from collections.abc import Sequence
from itertools import groupby
from typing import Protocol, TypeVar

WAITING = (
    "tests/e2e/test_replicas",
    "tests/e2e/test_storm.py",
    "tests/browser/",
    "tests/e2e/",
    "tests/cli/",
    "tests/integrations/docker/",
    "tests/integrations/ssh/",
    "tests/integrations/process/",
    "tests/agent/",
    "tests/api/test_serving.py",
    "tests/sdk/",
)
"""Their processes mostly wait: as many again can run beside them. The longest come first."""
COMPUTING = (
    "tests/integrations/kvm/",
    "tests/tools/test_bench.py::test_a_benchmark_runs",
    "tests/simulation/",
    "tests/operations/",
    "tests/contracts/test_claim_matching",
)
"""They keep a core busy. The longest come first."""
SHARED = ("tests/browser/", "tests/integrations/docker/")
"""All of the folder shares what is costly to set up; elsewhere a file does, at most."""


SLOW = (
    "tests/agent/test_commands.py::test_one_that_ignores_sigterm",
    "tests/agent/test_commands.py::test_output_beyond_the_cap",
    "tests/agent/test_shell.py::test_lost_replies",
    "tests/api/test_agent_routes.py::test_many_nodes_beat_at_once",
    "tests/api/test_serving.py::test_a_signal_drains_and_ends_with_0",
    "tests/api/test_serving.py::test_a_template_has_a_new_revision",
    "tests/api/test_terminals.py::test_of_a_hundred_shells",
    "tests/browser/",
    "tests/cli/test_commands.py::test_a_run_ends_at_its_timeout",
    "tests/cli/test_commands.py::test_apply_says_what_it_costs",
    "tests/cli/test_commands.py::test_what_outlives_max_runtime",
    "tests/cli/test_contexts.py::test_logins_at_the_same_time",
    "tests/cli/test_demo",
    "tests/cli/test_down.py",
    "tests/cli/test_ec2.py::test_doctor_",
    "tests/cli/test_store.py::test_a_database_is_made",
    "tests/contracts/test_dynamodb_",
    "tests/e2e/",
    "tests/fuzz/test_openapi.py",
    "tests/integrations/docker/",
    "tests/integrations/example/",
    "tests/integrations/kvm/",
    "tests/operations/test_cluster_crashes.py",
    "tests/operations/test_cluster_storms.py",
    "tests/operations/test_crashes.py",
    "tests/operations/test_running.py::test_a_fault_at_any_call",
    "tests/simulation/test_defects.py",
    "tests/simulation/test_determinism.py",
    "tests/simulation/test_regressions.py",
    "tests/simulation/test_seeds.py",
    "tests/stores/test_dynamodb_",
    "tests/stores/test_postgres_connection_shares.py::test_a_replica_that_comes",
    "tests/tools/test_bench.py::test_a_benchmark_runs",
    "tests/tools/test_docs.py",
    "tests/tools/test_mutants.py",
)
"""How the names of the tests begin that only `make check` runs."""
QUICK = (
    "tests/browser/test_watching.py::test_a_cold_provision_is_asked_for",
    "tests/cli/test_demo.py::test_the_demo_comes_to_its_last_line",
    "tests/e2e/test_absence.py::test_sigterm_lets_requests_finish",
    "tests/e2e/test_boots.py::test_a_script_that_fails",
    "tests/e2e/test_clusters.py::test_from_the_command_line",
    "tests/e2e/test_docker.py::test_containers_are_made_used_kept_warm_and_ended",
    "tests/e2e/test_ec2.py::test_machines_are_made_used_kept_warm_and_ended",
    "tests/e2e/test_github.py::test_a_workflow_from_its_first_step",
    "tests/e2e/test_isolation.py::test_a_job_in_the_sandbox",
    "tests/e2e/test_life.py",
    "tests/e2e/test_replicas.py::test_a_server_that_is_killed_in_the_middle_is_replaced_and_nothing_is_doubled_or_leaked[postgresql]",
    "tests/e2e/test_ssh.py::test_nodes_are_made_on_hosts_used_kept_warm_and_ended",
    "tests/e2e/test_services.py::test_an_app_is_starting_until_it_really_accepts",
    "tests/integrations/docker/test_requests.py",
    "tests/operations/test_crashes.py::test_a_fault_at_any_call_changes_no_outcome[cold",
    "tests/simulation/test_determinism.py::test_a_defect_that_was_planted_before",
    "tests/simulation/test_seeds.py::test_heavy_faults_break_no_promise[range(0, 3)]",
    "tests/simulation/test_seeds.py::test_heavy_faults_break_no_promise[range(3, 6)]",
    "tests/simulation/test_seeds.py::test_light_faults_break_no_promise[range(10000, 10003)]",
    "tests/simulation/test_seeds.py::test_without_faults_no_fitting_request_is_refused[range(20000, 20003)]",
)
"""What `make test` runs of them all the same: one walk through each part."""


class Test(Protocol):
    @property
    def nodeid(self) -> str: ...


T = TypeVar("T", bound=Test)


def is_slow(nodeid: str) -> bool:
    return nodeid.startswith(SLOW) and not nodeid.startswith(QUICK)


def piled(tests: Sequence[T], workers: int) -> list[T]:
    """The same tests in the order in which so many workers should get them."""
    if workers < 2:
        return list(tests)
    piles: list[list[T]] = [[] for _ in range(workers)]
    for number, together in enumerate(_sharing(_of(WAITING, tests))):
        piles[number * 2 % workers].extend(together)
    for number, test in enumerate(_of(COMPUTING, tests)):
        piles[(number * 2 + 1) % workers].append(test)
    quick = [test for test in tests if not _is(test, WAITING + COMPUTING)]
    for number, pile in enumerate(piles):
        waiting_for_theirs = piles[number:]
        left = len(quick) + sum(map(len, waiting_for_theirs))
        share = max(0, left // len(waiting_for_theirs) - len(pile))
        pile.extend(quick[:share])
        del quick[:share]
    return [test for pile in piles for test in pile] + quick


def _is(test: Test, kind: tuple[str, ...]) -> bool:
    return test.nodeid.startswith(kind)


def _of(kind: tuple[str, ...], tests: Sequence[T]) -> list[T]:
    """The tests of one kind, in the order in which the kind names them."""

    def place(test: T) -> int:
        return next(number for number, begins in enumerate(kind) if test.nodeid.startswith(begins))

    return sorted((test for test in tests if _is(test, kind)), key=place)


def _sharing(tests: Sequence[T]) -> list[list[T]]:
    """Tests that follow each other and may share a fixture."""

    def place(test: T) -> str:
        file = test.nodeid.partition("::")[0]
        return next((folder for folder in SHARED if file.startswith(folder)), file)

    return [list(group) for _, group in groupby(tests, key=place)]
