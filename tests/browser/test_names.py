"""Names that others made up: they are shown as they are, and can neither script nor break the page."""

import pytest
from playwright.sync_api import expect

from muster.client import calls
from tests.browser.conftest import Open
from tests.browser.viewing import PHONE, View
from tests.e2e.site import Site

NAMES = (
    '<img src=x onerror="window.hacked=1">',
    "</script><script>window.hacked=1</script>",
    "javascript:window.hacked=1",
    "{{constructor.constructor('window.hacked=1')()}}",
    "W" * 256,
    "לִתְעוּדָה 界界界 🧑🏽 Z̷͚̈a̵l̶g̷o̸",
    "a/../../b?c=d#e%2Fand&more=\"'`",
)
WIDER = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


@pytest.fixture(scope="module")
def waiting(site: Site) -> dict[str, str]:
    """Operations that wait behind a pause, so that no machine is needed for a name."""
    asked = {name: site.ask(calls.provision(site.request(1, name, template="held"))) for name in NAMES}
    return {name: operation.operation_id for name, operation in asked.items()}


@pytest.mark.parametrize("size", [None, PHONE], ids=["desktop", "phone"])
def test_names_are_text_whatever_they_look_like(
    site: Site, tokens: dict[str, str], open_view: Open, waiting: dict[str, str], size: tuple[int, int] | None
) -> None:
    view = open_view(site.url, tokens["operator"], **({} if size is None else {"size": size}))
    for path in ("/", "/operations", "/events"):
        page = view.go(path)
        expect(page.get_by_text(NAMES[0]).first).to_be_attached()
        assert page.evaluate("window.hacked") is None
        assert page.evaluate(WIDER) <= 0, f"{path} must not scroll sideways"
    for name in NAMES:
        page = view.go(f"/operations/{waiting[name]}")
        expect(page.get_by_text(name).first).to_be_attached()
        assert page.evaluate("window.hacked") is None
        assert page.evaluate(WIDER) <= 0, name


def test_a_name_in_the_address_is_only_a_filter(view: View) -> None:
    page = view.go(
        "/nodes?run=%3Cimg%20src%3Dx%20onerror%3D%22window.hacked%3D1%22%3E&q=%22%3E%3Csvg%20onload%3Dalert(1)%3E"
    )
    expect(page.get_by_role("table", name="Nodes").or_(page.get_by_text("No node"))).to_be_visible()
    assert page.evaluate("window.hacked") is None
