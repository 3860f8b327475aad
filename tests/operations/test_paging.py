from muster.ports.paging import items, pages
from muster.ports.store import Cursor, Page


async def read(after: Cursor | None) -> Page[int]:
    start = 0 if after is None else int(after)
    return Page(items=(start, start + 1), next=Cursor(str(start + 2)) if start < 4 else None)


async def test_a_list_is_read_page_by_page_to_its_end() -> None:
    assert [page.items async for page in pages(read)] == [(0, 1), (2, 3), (4, 5)]
    assert [item async for item in items(read)] == [0, 1, 2, 3, 4, 5]


async def test_a_list_is_taken_up_where_an_earlier_page_ended() -> None:
    assert [page.items async for page in pages(read, after=Cursor("2"))] == [(2, 3), (4, 5)]


async def test_a_feed_is_read_to_its_first_page_that_is_not_full() -> None:
    async def feed(after: Cursor | None) -> Page[int]:
        start = 0 if after is None else int(after)
        end = min(start + 2, 5)
        return Page(items=tuple(range(start, end)), next=Cursor(str(end)))

    assert [page.items async for page in pages(feed, full=2)] == [(0, 1), (2, 3), (4,)]
    assert [page.next async for page in pages(feed, after=Cursor("5"), full=2)] == ["5"]
