import { describe, expect, test } from "vitest";
import { matched, navigate, setQuery, to } from "./router";

describe("addresses", () => {
  test.each([
    ["/nodes/:id", "/nodes/node-1", { id: "node-1" }],
    ["/nodes/:id", "/nodes/node-1/", { id: "node-1" }],
    ["/nodes/:id", "/nodes/a%2Fb%3Cc%3E", { id: "a/b<c>" }],
    ["/nodes/:id", "/nodes", null],
    ["/nodes/:id", "/nodes/a/b", null],
    ["/nodes/:id", "/nodes/%E0%A4%A", null],
    ["/nodes", "/templates", null],
  ])("%s and %s", (pattern, path, found) => expect(matched(pattern, path)).toEqual(found));

  test("of odd names survive the way there and back", () => {
    const name = "../<b>ä 日本 %2F?x#y";
    expect(matched("/templates/:name", to("templates", name))).toEqual({ name });
  });

  test("hold the filters; taking one out leaves the others", () => {
    navigate("/nodes?state=idle&q=ci");
    setQuery({ state: null, health: "ready" });
    expect(location.search).toBe("?q=ci&health=ready");
  });
});
