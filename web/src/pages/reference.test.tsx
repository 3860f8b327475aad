import { fireEvent, render, screen, within } from "@testing-library/react";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import json from "../../generated/openapi.json";
import { Site } from "../testing/site";
import Reference from "./reference";

let site: Site;

beforeEach(() => {
  Element.prototype.scrollIntoView ??= () => undefined;
  site = new Site();
  site.answers("/openapi.json", () => Response.json(json));
});

afterEach(() => {
  history.replaceState(null, "", "/");
  vi.unstubAllGlobals();
});

test("an address of one route opens it alone, with parameters, answer and a curl line", async () => {
  history.replaceState(null, "", "/api#nodes_listed");
  render(<Reference />);
  const all = await screen.findAllByTestId("route");
  const open = all.filter((each) => (each as HTMLDetailsElement).open);
  expect(open.map((each) => each.id)).toEqual(["nodes_listed"]);
  const text = open[0]?.textContent ?? "";
  for (const words of [
    "GET/api/v1/nodes",
    "viewer",
    "integer, 1 to 500",
    "Answer 200",
    "entered_at",
    "$MUSTER_TOKEN",
  ]) {
    expect(text).toContain(words);
  }
});

test("a route that is opened has its address; what a field holds is told when it is asked for", async () => {
  history.replaceState(null, "", "/api");
  render(<Reference />);
  const card = (await screen.findAllByTestId("route")).find((each) => each.id === "operations_show");
  if (!(card instanceof HTMLDetailsElement)) throw new Error("there is no such route");
  card.open = true;
  fireEvent(card, new Event("toggle"));
  expect(location.hash).toBe("#operations_show");
  expect(within(card).queryByText("from_percent")).toBeNull();
  for (const each of card.querySelectorAll<HTMLDetailsElement>(".nested")) {
    each.open = true;
    fireEvent(each, new Event("toggle"));
  }
  expect(within(card).getByText("from_percent")).toBeDefined();
});

test("a search leaves the routes that fit", async () => {
  history.replaceState(null, "", "/api?q=drain");
  render(<Reference />);
  expect((await screen.findAllByTestId("route")).map((each) => each.id)).toEqual(["nodes_drain"]);
});
