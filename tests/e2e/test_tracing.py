"""Traces as a collector gets them, from a real server with real agents."""

from collections.abc import Callable, Iterator

import httpx
import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from tests.e2e.site import BRISK, Site, until
from tests.integrations.otlp.collector import Collector, attributes

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
CANARY = "canary-of-a-secret"


@pytest.fixture
def collector() -> Iterator[Collector]:
    with Collector().listening() as collector:
        yield collector


@pytest.fixture
def site(make_site: Callable[..., Site], collector: Collector) -> Site:
    site = make_site(config=config(collector)).start()
    site.template(boot_script="muster-agent step unpacking")
    return site


def config(collector: Collector, more: str = "") -> str:
    return f'{BRISK}[process]\ncapacity = 4\n[otlp]\nendpoint = "{collector.url}"\n{more}'


def ask(http: httpx.Client, path: str, body: dict[str, object], **headers: str) -> str:
    answer = http.post(f"/api/v1/{path}", json=body, headers=headers)
    assert answer.status_code == 202, answer.text
    found: str = answer.json()["operation_id"]
    return found


def ended(site: Site, operation_id: str) -> None:
    site.ended(site.operation(operation_id))


def whole(collector: Collector, operation_id: str) -> Span:
    """The span of an operation, once it is there."""

    def look() -> Span | None:
        return next(
            (span for span in collector.spans if attributes(span).get("muster.operation_id") == operation_id),
            None,
        )

    return until(look, f"the span of {operation_id}")


def inside(collector: Collector, span: Span, name: str) -> list[Span]:
    return [each for each in collector.named(name) if each.parent_span_id == span.span_id]


def test_a_cold_provision_is_one_trace_down_to_the_phases_of_the_boot(
    site: Site, collector: Collector
) -> None:
    operation = site.provision(1)
    span = whole(collector, operation.operation_id)
    assert span.name == "provision"
    assert not span.parent_span_id
    (launch,) = inside(collector, span, "launch")
    assert attributes(launch)["muster.provider"] == "process"
    (boot,) = inside(collector, span, "boot")
    assert inside(collector, boot, "boot_script: unpacking")
    (attach,) = inside(collector, span, "attach")
    assert {each.trace_id for each in (launch, boot, attach)} == {span.trace_id}
    assert span.start_time_unix_nano <= launch.start_time_unix_nano <= boot.end_time_unix_nano
    assert boot.end_time_unix_nano <= attach.end_time_unix_nano <= span.end_time_unix_nano
    site.release(operation)


def test_a_warm_run_joins_its_callers_trace_and_tells_of_claim_and_command(
    site: Site, collector: Collector
) -> None:
    site.release(site.provision(1))
    with site.http() as http:
        body = {
            "provision": {"template": "ci", "count": 1, "run": "traced"},
            "execution": {"argv": ["sh", "-c", f"echo {CANARY}; exit 3"]},
        }
        name = ask(http, "runs", body, traceparent=f"00-{TRACE}-{PARENT}-01")
    ended(site, name)
    run = whole(collector, name)
    assert (run.trace_id.hex(), run.parent_span_id.hex()) == (TRACE, PARENT)
    (provision,) = inside(collector, run, "provision")
    assert len(inside(collector, provision, "claim")) == 1
    (command,) = inside(collector, provision, "command")
    assert attributes(command)["muster.exit_code"] == 3
    assert command.status.code == Status.STATUS_CODE_ERROR
    until(lambda: inside(collector, run, "release"), "the span of the release")
    assert {each.trace_id.hex() for each in (provision, command)} == {TRACE}
    assert CANARY.encode() not in b"".join(collector.bodies)
    lines = [line for line in site.words().splitlines() if TRACE in line]
    assert all(CANARY not in line for line in lines)


def test_a_caller_that_does_not_sample_gets_no_spans(site: Site, collector: Collector) -> None:
    with site.http() as http:
        body = {"template": "ci", "count": 1, "run": "silent"}
        name = ask(http, "provisions", body, traceparent=f"00-{TRACE}-{PARENT}-00")
        ended(site, name)
        site.release(site.operation(name))
        told = ask(http, "provisions", {**body, "run": "told"})
    ended(site, told)
    whole(collector, told)
    assert TRACE not in {span.trace_id.hex() for span in collector.spans}
    site.release(site.operation(told))


def test_spans_outlive_a_collector_that_is_away(make_site: Callable[..., Site]) -> None:
    collector = Collector()
    with collector.listening():
        pass  # only its address is known now
    site = make_site(config=config(collector)).start()
    site.template()
    operation = site.provision(1)
    assert operation.status == "succeeded"
    until(lambda: "cannot export traces" in site.words(), "the server to say so")
    with collector.listening():
        whole(collector, operation.operation_id)
        site.release(operation)
        assert site.stop() == 0
    assert site.words().count("cannot export traces") == 1
    site.start()


def test_a_failed_boot_is_a_span_with_its_reason(
    make_site: Callable[..., Site], collector: Collector
) -> None:
    site = make_site(config=config(collector)).start()
    site.template(boot_script="exit 7")
    operation = site.provision(1)
    assert operation.status == "failed"
    span = whole(collector, operation.operation_id)
    assert span.status.code == Status.STATUS_CODE_ERROR
    assert attributes(span)["muster.reason"] == "boot_script_failed"
    (boot,) = until(lambda: inside(collector, span, "boot"), "the span of the boot")
    assert boot.status.code == Status.STATUS_CODE_ERROR
