import { render, screen } from "@testing-library/react";
import { beforeEach, describe, expect, test, vi } from "vitest";
import { NOW, operation } from "../testing/examples";
import { crept, ProgressBar } from "./bar";

beforeEach(() => {
  vi.useFakeTimers({ now: NOW, toFake: ["Date", "setInterval", "clearInterval"] });
  return () => vi.useRealTimers();
});

const drawn = () => Number(screen.getByRole("progressbar").getAttribute("data-percent"));

describe("the bar", () => {
  test("never goes back, in whatever order payloads arrive", () => {
    const { rerender } = render(<ProgressBar progress={operation({ percent: 10 })} name="bar" />);
    const seen = [];
    for (const percent of [30, 20, 55, 0, 54, 100, 99]) {
      rerender(<ProgressBar progress={operation({ percent })} name="bar" />);
      seen.push(drawn());
    }
    expect(seen).toEqual([30, 30, 55, 55, 55, 100, 100]);
  });

  test("starts anew for another operation", () => {
    const { rerender } = render(<ProgressBar progress={operation({ percent: 80 })} name="bar" />);
    rerender(<ProgressBar progress={operation({ operation_id: "op-2", percent: 5 })} name="bar" />);
    expect(drawn()).toBe(5);
  });

  test.each([
    [150, 100],
    [-3, 0],
    [Number.NaN, 0],
  ])("shows %d as %d", (percent, shown) => {
    render(<ProgressBar progress={operation({ percent })} name="bar" />);
    expect(drawn()).toBe(shown);
  });

  test("says how far it is to who can't see it", () => {
    render(<ProgressBar progress={operation({ percent: 41.7 })} name="Step 3/5" />);
    const bar = screen.getByRole("progressbar", { name: "Step 3/5" });
    expect(bar.getAttribute("aria-valuenow")).toBe("42");
  });
});

describe("between two words of the server", () => {
  const updated = Date.parse("2026-05-04T09:30:10Z");
  const step = operation({ percent: 42, step: 3, total_steps: 5, eta_seconds: 20 });
  const most = (100 * (2 + 0.95)) / 5;

  test("it moves towards the end of the step, as fast as is usual", () => {
    expect(crept(step, updated + 10_000)).toBeCloseTo((42 + most) / 2);
  });

  test.each([20_000, 20_001, 3_600_000])("but %d ms later it has not passed it", (later) => {
    expect(crept(step, updated + later)).toBeCloseTo(most);
  });

  test.each([
    ["nothing is known of the end", operation({ percent: 42 })],
    ["it has ended", operation({ percent: 42, eta_seconds: 20, status: "failed" })],
    ["the step is not known", operation({ percent: 42, eta_seconds: 20, step: null })],
    ["the server's clock is ahead", operation({ percent: 42, eta_seconds: 20, updated_at: "2026-05-04T10:00:00Z" })],
  ])("it stands still if %s", (_, progress) => {
    expect(crept(progress, updated + 10_000)).toBe(42);
  });
});
