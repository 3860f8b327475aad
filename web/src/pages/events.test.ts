import { expect, test } from "vitest";
import { event } from "../testing/examples";
import { matches } from "./events";

const query = (text: string) => new URLSearchParams(text);

test("renewals of warm nodes are shown on request", () => {
  const renewed = event({ name: "renewed", title: "kept warm" });
  expect(matches(renewed, query(""))).toBe(false);
  expect(matches(renewed, query("renewals=1"))).toBe(true);
  expect(matches(event({ name: "extend", title: "extended" }), query(""))).toBe(true);
});

test("an event is found by its words as by its code", () => {
  const given = event({ name: "hand_over", title: "handed over" });
  expect(matches(given, query("q=handed"))).toBe(true);
  expect(matches(given, query("q=hand_over"))).toBe(true);
});
