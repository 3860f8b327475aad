import { act, fireEvent, render, screen, within } from "@testing-library/react";
import { beforeEach, describe, expect, test, vi } from "vitest";
import type { Operation } from "../api/types";
import { failure, NOW, operation, part, signedIn } from "../testing/examples";
import { Banner } from "./banner";

beforeEach(() => {
  vi.useFakeTimers({ now: NOW, toFake: ["Date", "setInterval", "clearInterval"] });
  return () => vi.useRealTimers();
});

const text = () => screen.getByTestId("operation-banner").textContent;

describe("a banner", () => {
  test("says the step, its label, how long it has run, and what it waits for", () => {
    render(<Banner operation={operation()} />);
    expect(text()).toContain("Step 3/5 · Booting and attaching · 0m 12s");
    expect(text()).toContain("waiting for 2 nodes to boot");
    expect(text()).toContain("ci-42");
  });

  test("counts on between two words of the server", () => {
    render(<Banner operation={operation()} />);
    act(() => vi.advanceTimersByTime(3000));
    expect(text()).toContain("0m 15s");
  });

  test("counts the expected end down, and makes none up", () => {
    const { rerender } = render(<Banner operation={operation({ eta_seconds: 30 })} />);
    expect(text()).toContain("about 28 s left");
    rerender(<Banner operation={operation({ eta_seconds: null })} />);
    expect(text()).not.toContain("left");
  });

  test("stands still at the end, with the time that it took", () => {
    const ended = operation({
      status: "succeeded",
      step: 5,
      label: "Nodes ready",
      percent: 100,
      ended_at: "2026-05-04T09:30:07Z",
    });
    render(<Banner operation={ended} />);
    act(() => vi.advanceTimersByTime(60_000));
    expect(text()).toContain("Nodes ready · 7.0 s");
  });

  test("tells why it failed instead of what it waited for", () => {
    render(<Banner operation={operation({ status: "failed", error: failure({ message: "it took too long" }) })} />);
    expect(text()).toContain("it took too long");
    expect(text()).not.toContain("waiting for");
  });
});

describe("what is missing is not shown", () => {
  test("no step: label and elapsed only", () => {
    render(<Banner operation={operation({ step: null, total_steps: null })} />);
    expect(text()).toContain("Booting and attaching · 0m 12s");
    expect(text()).not.toContain("Step");
  });

  test("no parts: no chips", () => {
    const { parts: _, ...without } = operation();
    render(<Banner operation={without as Operation} />);
    expect(screen.queryByTestId("chip")).toBeNull();
  });

  test("no label: the phase with spaces", () => {
    render(<Banner operation={operation({ label: null, phase: "ensuring_resource_group" })} />);
    expect(text()).toContain("Step 3/5 · ensuring resource group");
  });

  test("neither label nor phase: the status", () => {
    render(
      <Banner operation={operation({ label: null, phase: null, step: null, total_steps: null, status: "queued" })} />,
    );
    expect(text()).toContain("Queued · 0m 12s");
  });

  test("no percent: a bar that says so, and no number", () => {
    render(<Banner operation={operation({ percent: null })} />);
    const bar = screen.getByRole("progressbar");
    expect(bar.getAttribute("aria-valuenow")).toBeNull();
    expect(bar.getAttribute("aria-valuetext")).toContain("not known");
  });

  test("the barest payload that can be", () => {
    render(
      <Banner
        operation={
          {
            operation_id: "op-1",
            kind: "cluster",
            status: "running",
            started_at: "2026-05-04T09:30:00Z",
          } as unknown as Operation
        }
      />,
    );
    expect(text()).toContain("Running · 0m 12s");
  });
});

describe("names that others chose", () => {
  test("are text, whatever they look like", () => {
    const evil = `<img src=x onerror="alert(1)">`;
    render(<Banner operation={operation({ run: evil, message: evil, parts: [part({ name: evil, state: evil })] })} />);
    expect(screen.getByTestId("operation-banner").querySelector("img")).toBeNull();
    expect(text()).toContain(evil);
  });

  test("keep their direction to themselves", () => {
    render(<Banner operation={operation({ run: "abc\u202Edef" })} />);
    expect(screen.getByText("abc\u202Edef").tagName).toBe("BDI");
  });
});

describe("the buttons", () => {
  const buttons = () =>
    within(screen.getByTestId("operation-banner"))
      .queryAllByRole("button")
      .map((each) => each.textContent);

  test("an operator can cancel what runs", () => {
    signedIn("operator");
    render(<Banner operation={operation()} />);
    expect(buttons()).toEqual(["Cancel"]);
  });

  test("cancelling is asked about first, and done once it is confirmed", async () => {
    vi.spyOn(HTMLDialogElement.prototype, "showModal").mockImplementation(function (this: HTMLDialogElement) {
      this.open = true;
    });
    const fetched = vi.fn(async () => Response.json(operation()));
    vi.stubGlobal("fetch", fetched);
    signedIn("operator");
    render(<Banner operation={operation()} />);
    fireEvent.click(screen.getByText("Cancel"));
    expect(fetched).not.toHaveBeenCalled();
    await act(async () => fireEvent.click(screen.getByText("Cancel it")));
    expect(fetched).toHaveBeenCalledTimes(1);
    vi.unstubAllGlobals();
  });

  test("a viewer sees none that it may not use", () => {
    signedIn("viewer");
    render(<Banner operation={operation()} />);
    expect(buttons()).toEqual([]);
  });

  test.each([
    ["it has ended", operation({ status: "failed" })],
    ["its nodes are handed over", operation({ committed_at: "2026-05-04T09:30:11Z" })],
    ["it is a release", operation({ kind: "release" })],
    ["it is the deletion of a cluster", operation({ kind: "cluster_delete" })],
    ["somebody cancelled it already", operation({ cancel_requested_at: "2026-05-04T09:30:11Z" })],
  ])("nobody can cancel if %s", (_, shown) => {
    signedIn("admin");
    render(<Banner operation={shown} />);
    expect(buttons()).toEqual([]);
  });
});
