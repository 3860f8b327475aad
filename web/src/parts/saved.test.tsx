import { act, fireEvent, render, screen } from "@testing-library/react";
import { afterEach, beforeEach, expect, test } from "vitest";
import { saved } from "../live/saved-filters";
import { navigate } from "../routing/router";
import { SavedFilters } from "./saved";

beforeEach(() => localStorage.clear());
afterEach(() => localStorage.clear());

const at = (address: string) => history.replaceState(null, "", address);

test("filters are kept under a name, whose address holds all of them", () => {
  at("/nodes?state=failed&template=ci");
  render(<SavedFilters />);
  fireEvent.change(screen.getByLabelText("Name of these filters"), { target: { value: "broken ci" } });
  fireEvent.click(screen.getByText("Save"));
  expect(location.search).toBe("?state=failed&template=ci&view=broken+ci");
  expect(screen.getByRole("link", { name: "broken ci" }).getAttribute("href")).toBe(
    "/nodes?state=failed&template=ci&view=broken+ci",
  );
  expect(saved("/events")).toEqual([]);
});

test("who gets the address sees the name and can keep it", () => {
  at("/nodes?state=idle&view=spare");
  render(<SavedFilters />);
  expect(screen.getByTestId("saved-filters").querySelector("summary")?.textContent).toBe("spare");
  fireEvent.click(screen.getByText("Save"));
  expect(saved("/nodes").map((each) => each.name)).toEqual(["spare"]);
});

test("the same name replaces, and a deleted one is gone", () => {
  at("/nodes?state=idle&view=mine");
  render(<SavedFilters />);
  fireEvent.click(screen.getByText("Save"));
  act(() => navigate("/nodes?state=running&view=mine"));
  fireEvent.click(screen.getByText("Save"));
  expect(saved("/nodes").map((each) => each.href)).toEqual(["/nodes?state=running&view=mine"]);
  fireEvent.click(screen.getByLabelText("Delete the filters mine"));
  expect(saved("/nodes")).toEqual([]);
});

test.each([
  ['[{"name":"x","href":"ftp://evil.example/nodes"}]'],
  ['[{"name":"x","href":"//evil.example/nodes"}]'],
  ['[{"name":"x","href":"javascript:alert(1)"}]'],
  ["[null, 3, {}]"],
  ["not json"],
])("what somebody else wrote into the storage leads nowhere: %s", (text) => {
  localStorage.setItem("muster.filters", text);
  at("/nodes");
  render(<SavedFilters />);
  expect(screen.queryByRole("link")).toBeNull();
});
