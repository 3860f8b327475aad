"""What the exporter keeps, drops and repeats when its collector refuses or is away; and its settings."""

from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from muster.domain.errors import InvalidRequest
from muster.domain.events import Draft, Entity
from muster.domain.ids import OperationId
from muster.domain.operation import Kind, Operation, Status
from muster.domain.requests import ProvisionRequest
from muster.integrations.otlp import exporter
from muster.integrations.otlp.exporter import CannotExport, Exporter
from muster.integrations.otlp.tables import OtlpConfig, headers
from muster.ports.commits import Written
from tests.domain.builders import launch
from tests.harness import Harness, with_harness
from tests.integrations.otlp.collector import read

CANARY = "canary-of-a-secret"


class ScriptedCollector:
    """A collector of this process: it answers with a status, and keeps the names of runs that it was told."""

    def __init__(self, *statuses: int) -> None:
        self.statuses = list(statuses)
        self.asked = 0
        self.sent: list[list[str]] = []
        self.transport = httpx.MockTransport(self._answer)

    @property
    def runs(self) -> list[str]:
        return [run for batch in self.sent for run in batch]

    def _answer(self, request: httpx.Request) -> httpx.Response:
        self.asked += 1
        status = self.statuses.pop(0) if self.statuses else 200
        if status == 0:
            raise httpx.ConnectError("refused")
        if status == 200:
            spans = read(request.content).resource_spans[0].scope_spans[0].spans
            self.sent.append(
                [
                    each.value.string_value
                    for span in spans
                    for each in span.attributes
                    if each.key == "muster.run"
                ]
            )
        return httpx.Response(status, stream=httpx.ByteStream(b""))


def made(harness: Harness, away: ScriptedCollector, *, sample: float = 1.0) -> Exporter:
    return Exporter(
        "http://127.0.0.1:1/v1/traces",
        harness.store,
        harness.clock,
        headers={},
        resource={"service.name": "muster"},
        sample=sample,
        transport=away.transport,
    )


def ended(number: int, *, trace: str = "") -> Written:
    operation = Operation(
        id=OperationId(f"op-{number}"),
        kind=Kind.PROVISION,
        request=ProvisionRequest(template="ci", count=1, run=f"run-{number}"),
        template="ci",
        run=f"run-{number}",
        status=Status.SUCCEEDED,
        created_at=10.0,
        updated_at=20.0,
        ended_at=20.0,
        deadline_at=99.0,
        deadline_source="request",
        trace=trace,
    )
    draft = Draft(
        entity=Entity.OPERATION, entity_id=operation.id, version=3, name="ended", changes={"ended_at": 20.0}
    )
    return Written(draft=draft, operation_ids=(), by=None, record=operation)


@pytest.mark.parametrize("status", [0, 408, 429, 502, 503, 504])
@with_harness
async def test_what_a_collector_could_not_take_is_sent_later_and_once(harness: Harness, status: int) -> None:
    away = ScriptedCollector(status)
    exporting = made(harness, away)
    exporting.saw([ended(1), ended(2)])
    with pytest.raises(CannotExport) as refused:
        await exporting.export()
    assert refused.value.passing
    exporting.saw([ended(3)])
    await exporting.export()
    await exporting.export()
    assert away.runs == ["run-1", "run-2", "run-3"]
    await exporting.close()


@pytest.mark.parametrize("status", [302, 400, 401, 404, 413, 500])
@with_harness
async def test_what_a_collector_refuses_is_dropped_and_the_next_goes_out(
    harness: Harness, status: int
) -> None:
    away = ScriptedCollector(status)
    exporting = made(harness, away)
    exporting.saw([ended(1)])
    with pytest.raises(CannotExport) as refused:
        await exporting.export()
    assert not refused.value.passing
    exporting.saw([ended(2)])
    await exporting.export()
    assert away.runs == ["run-2"]
    await exporting.close()


@with_harness
async def test_a_batch_has_a_limit(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exporter, "BATCH", 2)
    away = ScriptedCollector()
    exporting = made(harness, away)
    exporting.saw([ended(number) for number in range(5)])
    await exporting.export()
    assert away.sent == [["run-0", "run-1"], ["run-2", "run-3"], ["run-4"]]
    await exporting.close()


@with_harness
async def test_while_a_collector_is_away_memory_and_requests_have_a_bound(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exporter, "QUEUED_MOST", 4)
    away = ScriptedCollector(*[503] * 1000)
    exporting = made(harness, away)
    exporting.start()
    for number in range(20):
        exporting.saw([ended(number)])
        await harness.pass_time(180.0)
    assert away.asked < 2 * 20 * 180.0 / exporter.PAUSE_MOST, "pauses grow"
    away.statuses.clear()
    await harness.pass_time(2 * exporter.PAUSE_MOST)
    assert 0 < len(away.runs) <= 8 and away.runs[-1] == "run-19"
    assert len(set(away.runs)) == len(away.runs)
    await exporting.close()


@with_harness
async def test_of_a_burst_the_newest_are_kept_and_what_goes_on_makes_no_span(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exporter, "QUEUED_MOST", 4)
    away = ScriptedCollector()
    exporting = made(harness, away)
    exporting.saw([ended(number) for number in range(20)])
    running = replace(ended(20).draft, name="committed", changes={"committed_at": 15.0})
    exporting.saw([replace(ended(20), draft=running)])
    await exporting.export()
    assert away.runs == ["run-16", "run-17", "run-18", "run-19"]
    await exporting.close()


@with_harness
async def test_the_end_of_a_server_sends_what_is_left(harness: Harness) -> None:
    away = ScriptedCollector()
    exporting = made(harness, away)
    exporting.start()
    exporting.saw([ended(1)])
    await exporting.close()
    assert away.runs == ["run-1"]


@with_harness
async def test_a_share_of_the_traces_is_exported_and_a_caller_decides_of_its_own(harness: Harness) -> None:
    wanted = "00-" + "f" * 32 + "-" + "1" * 16 + "-01"
    for sample, least, most in ((0.0, 0, 0), (0.5, 20, 80), (1.0, 100, 100)):
        away = ScriptedCollector()
        exporting = made(harness, away, sample=sample)
        exporting.saw([ended(number) for number in range(100)])
        exporting.saw([ended(100, trace=wanted), ended(101, trace=wanted[:-1] + "0")])
        await exporting.export()
        own = [each for each in away.runs if each not in ("run-100", "run-101")]
        assert least <= len(own) <= most
        assert "run-100" in away.runs and "run-101" not in away.runs
        await exporting.close()


@with_harness
async def test_an_operation_that_was_pruned_meanwhile_stops_nothing(harness: Harness) -> None:
    away = ScriptedCollector()
    exporting = made(harness, away)
    draft = Draft(
        entity=Entity.LAUNCH, entity_id="l-1", version=2, name="settled", changes={"closed_at": 20.0}
    )
    exporting.saw([Written(draft=draft, record=launch(closed_at=20.0)), ended(2)])
    await exporting.export()
    assert away.runs == ["run-2"]
    await exporting.close()


def test_headers_are_read_from_their_file_and_never_shown(tmp_path: Path) -> None:
    file = tmp_path / "headers"
    file.write_text(f"Authorization: Bearer {CANARY}\n\nX-Scope-OrgID: 7 \n")
    assert headers(OtlpConfig(headers_file=file)) == {
        "Authorization": f"Bearer {CANARY}",
        "X-Scope-OrgID": "7",
    }
    assert headers(OtlpConfig()) == {}
    for wrong in (
        f"{CANARY}\n",
        f"Bad Name: {CANARY}\n",
        f"A: {CANARY}\x07\n",
        f"A: é{CANARY}\n",
        f"é: {CANARY}\n",
        "",
        "\n",
    ):
        file.write_text(wrong, encoding="latin-1")
        with pytest.raises(InvalidRequest) as refused:
            headers(OtlpConfig(headers_file=file))
        assert CANARY not in str(refused.value)
    with pytest.raises(InvalidRequest, match="can be read"):
        headers(OtlpConfig(headers_file=tmp_path / "absent"))
