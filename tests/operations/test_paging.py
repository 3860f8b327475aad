from muster.ports.paging import items, pages
from muster.ports.store import Cursor, Page


async def read(after: Cursor | None) -> Page[int]:
    start = 0 if after is None else int(after)
    return Page(items=(start, start + 1), next=Cursor(str(start + 2)) if start < 4 else None)


async def test_a_list_is_read_page_by_page_to_its_end() -> None:
    assert [page async for page in pages(read)] == [(0, 1), (2, 3), (4, 5)]
    assert [item async for item in items(read)] == [0, 1, 2, 3, 4, 5]
