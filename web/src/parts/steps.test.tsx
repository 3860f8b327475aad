import { render, screen, within } from "@testing-library/react";
import { describe, expect, test } from "vitest";
import type { FeedEvent } from "../api/types";
import { event, failure, operation } from "../testing/examples";
import { StepTimeline, stepsOf } from "./steps";

const told = (version: number, at: string, step: number, label: string): FeedEvent =>
  event({
    id: `ev-${version}`,
    entity: "operation",
    version,
    at,
    changes: { step, total_steps: 5, label },
  });

const HISTORY = [
  told(2, "2026-05-04T09:30:01Z", 2, "Creating the missing nodes"),
  told(3, "2026-05-04T09:30:03Z", 3, "Booting and attaching"),
  told(4, "2026-05-04T09:30:04Z", 3, "Booting and attaching"),
];
const lines = () =>
  within(screen.getByRole("list", { name: "Steps" }))
    .getAllByRole("listitem")
    .map((each) => each.textContent);

describe("the steps of an operation", () => {
  test("last from their first mention to that of a later one", () => {
    const steps = stepsOf(operation(), HISTORY);
    expect(steps.map((step) => step.began !== null)).toEqual([false, true, true, false, false]);
    expect(steps[1]).toMatchObject({ label: "Creating the missing nodes", ended: Date.parse("2026-05-04T09:30:03Z") });
    expect(steps[2]).toMatchObject({ ended: null });
  });

  test("are told in any order of arrival", () => {
    expect(stepsOf(operation(), [...HISTORY].reverse())).toEqual(stepsOf(operation(), HISTORY));
  });

  test("name those to come, if the server does", () => {
    const steps = ["A", "B", "C", "Handing over", "Nodes ready"].map((label) => ({ phase: "", label }));
    expect(
      stepsOf(operation({ steps }), HISTORY)
        .map((step) => step.label)
        .slice(3),
    ).toEqual(["Handing over", "Nodes ready"]);
    expect(stepsOf(operation(), HISTORY)[3]?.label).toBe("step 4");
  });

  test("one that waits in the queue turns no wheel", () => {
    const { container } = render(<StepTimeline operation={operation({ status: "queued", step: 1 })} events={[]} />);
    expect(lines()[0]).toBe("Booting and attachingwaits");
    expect(container.querySelector(".sign-turning")).toBeNull();
    expect(container.querySelector("[aria-current=step]")?.textContent).toContain("waits");
  });

  test("a failed one keeps the step that it failed in", () => {
    render(
      <StepTimeline operation={operation({ status: "failed", ended_at: "2026-05-04T09:30:09Z" })} events={HISTORY} />,
    );
    expect(lines()).toEqual([
      "step 1at once",
      "Creating the missing nodes2.0 s",
      "Booting and attachingfailed here",
      "step 4not reached",
      "step 5not reached",
    ]);
  });

  test("a run of which a command failed names the commands, although it went on to its end", () => {
    const phases = ["booting", "running", "completed"];
    const run = operation({
      kind: "run",
      status: "failed",
      step: 3,
      total_steps: 3,
      steps: phases.map((phase) => ({ phase, label: phase })),
      error: failure({ code: "run_failed", reason: "command_failed", message: "exit 1" }),
      ended_at: "2026-05-04T09:30:09Z",
    });
    const history = phases.map((phase, at) => ({
      ...told(at + 2, `2026-05-04T09:30:0${at}Z`, at + 1, phase),
      changes: { step: at + 1, total_steps: 3, label: phase },
    }));
    render(<StepTimeline operation={run} events={history} />);
    expect(lines()).toEqual(["booting1.0 s", "runningfailed here", "completed"]);
  });

  test("without any history the present step is known at least", () => {
    render(
      <StepTimeline
        operation={operation({ status: "succeeded", step: 5, ended_at: "2026-05-04T09:30:09Z" })}
        events={[]}
      />,
    );
    expect(lines()).toHaveLength(5);
  });

  test("without any step there is no list", () => {
    render(<StepTimeline operation={operation({ step: null, total_steps: null })} events={[]} />);
    expect(screen.queryByRole("list")).toBeNull();
  });
});
