import { expect, test } from "vitest";
import { failure, operation } from "../testing/examples";
import { where } from "./names";

const STEPS = ["booting", "running", "completed"].map((phase) => ({ phase, label: `Step of ${phase}` }));

test.each([
  [{}, "Step 3/5 · Booting and attaching"],
  [{ status: "queued" }, "Queued"],
  [{ status: "succeeded", label: "Nodes ready", step: 5 }, "Nodes ready"],
  [{ status: "failed" }, "Failed in step 3/5 · Booting and attaching"],
  [{ status: "cancelled", step: 1, label: "Selecting warm nodes" }, "Cancelled in step 1/5 · Selecting warm nodes"],
  [{ status: "failed", step: null, total_steps: null }, "Failed"],
] as const)("%j is %s", (changes, words) => expect(where(operation(changes))).toBe(words));

test("a run whose command failed names the step of its commands, not the last", () => {
  const error = failure({ reason: "command_failed" });
  const run = operation({ status: "failed", step: 3, total_steps: 3, label: "Run ended", steps: STEPS, error });
  expect(where(run)).toBe("Failed in step 2/3 · Step of running");
});
