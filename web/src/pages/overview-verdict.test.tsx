import { fireEvent, render, screen } from "@testing-library/react";
import { expect, test } from "vitest";
import type { Change, FailureGroup, Finding, Overview } from "../api/types";
import { signedIn } from "../testing/examples";
import { Changes, FailuresCard, untold } from "./overview-blocks";
import { Verdict } from "./overview-verdict";

const group = (changes: Partial<FailureGroup> = {}) =>
  ({
    cause: "script_failed",
    template: "web",
    revision: 1,
    count: 4,
    detail: "the boot script ended with 127",
    advice: "fix that line",
    example_node_id: "node-1",
    example_operation_id: "op-1",
    last_at: "2026-05-04T09:30:00Z",
    ...changes,
  }) as FailureGroup;
const finding = (changes: Partial<Finding> = {}) =>
  ({
    id: "failures.web",
    code: "failures",
    tone: "danger",
    culprit: "template",
    text: "4 nodes of web failed in the last hour: script failed.",
    advice: "Fix that line.",
    about: { kind: "node", id: "node-1" },
    over: false,
    ...changes,
  }) as Finding;
const other = group({ cause: "command_failed", example_node_id: null, example_operation_id: "op-9" });
const overview = (changes: Partial<Overview> = {}): Overview => {
  const hour = { count: 5, more: false, groups: [group(), other] };
  return { verdict: finding(), findings: [finding()], failures: { hour, day: hour }, acknowledged: [], ...changes };
};

test("a failure that the top of the page tells of is not told again below", () => {
  const given = overview();
  expect(untold([group(), other], given)).toEqual([other]);
  const failures = given.failures;
  if (!failures) throw new Error("they are given");
  render(<FailuresCard failures={failures} overview={given} />);
  expect(screen.getByText("1 cause listed at the top of this page.")).toBeTruthy();
  expect(screen.queryByText("Script failed")).toBeNull();
  expect(screen.getByText("Command failed")).toBeTruthy();
});

test("one that was acknowledged is told at the top too", () => {
  const seen = [{ finding: finding(), by: "Ada", at: "2026-05-04T09:30:00Z" }];
  expect(untold([group()], overview({ findings: [], acknowledged: seen }))).toEqual([]);
});

test("the verdict carries the line that proves it, and present trouble stands above what is over", () => {
  signedIn("operator");
  const old = finding({ id: "old", code: "nodes_offline", text: "Old trouble.", over: true });
  const now = finding({ id: "now", code: "paused", text: "Paused: web.", tone: "warning" });
  render(<Verdict overview={overview({ findings: [finding(), old, now] })} refresh={() => undefined} />);
  expect(screen.getByText("the boot script ended with 127")).toBeTruthy();
  const words = screen.getByTestId("verdict").textContent ?? "";
  expect(words.indexOf("Paused: web.")).toBeLessThan(words.indexOf("Earlier"));
  expect(words.indexOf("Earlier")).toBeLessThan(words.indexOf("Old trouble."));
  expect(screen.getAllByRole("button", { name: /^Acknowledge/ })).toHaveLength(3);
});

test("at most six changes are listed until one asks for the rest", () => {
  const changes = Array.from({ length: 9 }, (_, n) => ({ id: `ev-${n}`, text: `change ${n}`, at: "" }) as Change);
  render(<Changes changes={changes} />);
  expect(screen.getAllByText(/^Change/)).toHaveLength(6);
  fireEvent.click(screen.getByRole("button", { name: "Show 3 more" }));
  expect(screen.getAllByText(/^Change/)).toHaveLength(9);
});

test("a change leads to what was changed", () => {
  const given = { id: "ev-1", at: "", text: "operation op-7 cancelled", entity: "operation", entity_id: "op-7" };
  render(<Changes changes={[given as Change]} />);
  expect(screen.getByTestId("changes").textContent).toContain("Operation op-7 cancelled");
  expect(screen.getByRole("link").getAttribute("href")).toBe("/operations/op-7");
});
