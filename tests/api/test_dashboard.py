"""The page at `/`, in front of an API that would answer everything else."""

import gzip
from pathlib import Path

import httpx
import pytest
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from muster.api.dashboard import NOT_BUILT, PAGES, Dashboard
from tests.api.site import Site

HTML = {"Accept": "text/html,*/*;q=0.8"}
SCRIPT = "console.log('hello')\n" * 50


async def _api(scope: Scope, receive: Receive, send: Send) -> None:
    await PlainTextResponse("the API")(scope, receive, send)


def _asking(app: ASGIApp) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://here")


@pytest.fixture
def built(tmp_path: Path) -> Path:
    page = tmp_path / "dashboard"
    (page / "assets").mkdir(parents=True)
    (page / "index.html").write_text("<!doctype html><title>Muster</title>")
    (page / "assets" / "index-1a2b.js").write_text(SCRIPT)
    (page / "favicon.svg").write_text("<svg/>")
    (tmp_path / "secret.txt").write_text("not yours")
    return page


@pytest.fixture
def page(built: Path) -> httpx.AsyncClient:
    return _asking(Dashboard(_api, built=built))


@pytest.mark.parametrize(
    "path", ["/", *(f"/{name}" for name in PAGES if name), "/nodes/node-1", "/templates/a%2Fb"]
)
async def test_every_address_of_the_page_gives_the_page(page: httpx.AsyncClient, path: str) -> None:
    answer = await page.get(path)
    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert "Muster" in answer.text


@pytest.mark.parametrize(
    "path", ["/api/v1/nodes", "/api/none", "/healthz", "/readyz", "/metrics", "/api/v1/openapi.json"]
)
async def test_what_is_the_apis_stays_the_apis(page: httpx.AsyncClient, path: str) -> None:
    assert (await page.get(path, headers=HTML)).text == "the API"


async def test_only_reading_is_the_pages(page: httpx.AsyncClient) -> None:
    assert (await page.post("/nodes")).text == "the API"


async def test_an_unknown_address_shows_the_page_to_people_and_the_apis_answer_to_programs(
    page: httpx.AsyncClient,
) -> None:
    shown = await page.get("/nonsense", headers=HTML)
    assert (shown.status_code, "Muster" in shown.text) == (404, True)
    assert (await page.get("/nonsense")).text == "the API"


@pytest.mark.parametrize(
    "path",
    ["/../secret.txt", "/%2e%2e/secret.txt", "/assets/../../secret.txt", "/..%2fsecret.txt", "//secret.txt"],
)
async def test_nothing_outside_of_the_page_can_be_read(page: httpx.AsyncClient, path: str) -> None:
    assert "not yours" not in (await page.get(path, headers=HTML)).text


async def test_nothing_from_elsewhere_and_no_inline_script_may_run(page: httpx.AsyncClient) -> None:
    policy = (await page.get("/")).headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self';")
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy


async def test_hashed_names_are_kept_for_good_and_the_page_itself_is_asked_for_each_time(
    page: httpx.AsyncClient,
) -> None:
    kept = (await page.get("/assets/index-1a2b.js")).headers["cache-control"]
    asked = await page.get("/")
    assert kept == "public, max-age=31536000, immutable"
    assert asked.headers["cache-control"] == "no-cache"
    again = await page.get("/", headers={"If-None-Match": asked.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


async def test_files_travel_compressed_to_who_can_read_that(built: Path) -> None:
    sent: dict[str, bytes] = {}
    app = Dashboard(_api, built=built)
    for accepted in ("gzip, br", "identity"):
        async with (
            _asking(app) as page,
            page.stream("GET", "/assets/index-1a2b.js", headers={"Accept-Encoding": accepted}) as answer,
        ):
            sent[accepted] = b"".join([piece async for piece in answer.aiter_raw()])
            assert answer.headers["vary"] == "Accept-Encoding"
    assert sent["identity"] == SCRIPT.encode()
    assert gzip.decompress(sent["gzip, br"]) == SCRIPT.encode()
    assert len(sent["gzip, br"]) < len(SCRIPT) / 5


async def test_without_a_build_the_page_says_how_to_get_one(tmp_path: Path) -> None:
    page = _asking(Dashboard(_api, built=tmp_path / "none"))
    answer = await page.get("/", headers=HTML)
    assert (answer.status_code, answer.text) == (200, NOT_BUILT)
    assert (await page.get("/nodes", headers=HTML)).status_code == 404
    assert (await page.get("/api/v1/nodes")).text == "the API"


async def test_the_server_answers_at_the_root_without_a_token(site: Site) -> None:
    async with site.http() as http:
        answer = await http.get("/", headers=HTML)
    assert answer.status_code == 200
    assert "Muster" in answer.text
