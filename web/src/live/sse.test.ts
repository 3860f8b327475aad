import { describe, expect, test } from "vitest";
import { Reading } from "./sse";

const STREAM =
  'retry: 1000\n: hello\n\nevent: booted\ndata: {"id":"ev-1"}\n\nevent: ended\nid: place-2\ndata: {"id":"ev-2"}\n\n: still here\n\n';

describe("a stream in pieces", () => {
  test.each([1, 2, 7, 1000])("of %d characters gives the same messages", (size) => {
    const reading = new Reading();
    const found = [];
    for (let at = 0; at < STREAM.length; at += size) found.push(...reading.take(STREAM.slice(at, at + size)));
    expect(found).toEqual([
      { event: "booted", data: '{"id":"ev-1"}' },
      { event: "ended", data: '{"id":"ev-2"}' },
    ]);
    expect(reading.last).toBe("place-2");
  });

  test("that break off lose half a message, and go on from the last place that was given", () => {
    const reading = new Reading("place-0");
    Array.from(reading.take('id: place-1\ndata: {"id":"ev-1"}\n\nid: place-2\ndata: {"id":'));
    reading.connected();
    expect(reading.last).toBe("place-1");
    expect([...reading.take('data: {"id":"ev-2"}\n\n')]).toEqual([{ event: "", data: '{"id":"ev-2"}' }]);
  });

  test("with the line ends of another system, and data in several lines", () => {
    expect([...new Reading().take("data: a\r\ndata: b\r\n\r\n")]).toEqual([{ event: "", data: "a\nb" }]);
  });
});
