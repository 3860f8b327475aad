import { expect, test } from "vitest";
import { event } from "../testing/examples";
import { titled, told } from "../parts/events";
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

test("the end of an operation is called by how it ended", () => {
  const end = event({
    entity: "operation",
    name: "ended",
    title: "ended",
    changes: { status: "failed", label: "Booting" },
  });
  expect(titled(end)).toBe("failed");
  expect(told(end)).toBe("");
});

test("an event doesn't say twice what happened: only fields that the title lacks are told", () => {
  expect(told(event({ name: "hand_over", changes: { state: "running", phase: "booted", health: "ready" } }))).toBe("");
  expect(told(event({ name: "adopt", changes: { state: "created", run: "ci-42" } }))).toBe("run ci-42");
  expect(told(event({ name: "condemn", changes: { reason: "boot_timeout" } }))).toBe("reason boot timeout");
});
