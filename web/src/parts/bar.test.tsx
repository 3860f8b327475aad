import { act, render, screen } from "@testing-library/react";
import { beforeEach, describe, expect, test, vi } from "vitest";
import { NOW, operation } from "../testing/examples";
import vectors from "../testing/motion.json";
import { percentAt, ProgressBar, written } from "./bar";

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
    expect(bar.getAttribute("aria-valuenow")).toBe("41");
  });
});

describe("between two words of the server", () => {
  const since = "2026-05-04T09:30:00Z";
  const begun = Date.parse(since);
  const motion = { from_percent: 40, to_percent: 60, since, expected_seconds: 450 };
  const creating = operation({ percent: 40, motion });

  test.each(vectors)("$elapsed of $expected s move it from $from towards $to as the server would", (each) => {
    const moving = { from_percent: each.from, to_percent: each.to, since, expected_seconds: each.expected };
    const shown = percentAt(operation({ percent: 0, motion: moving }), begun + each.elapsed * 1000);
    expect(shown).toBeCloseTo(each.percent, 6);
  });

  test("it moves in every second, and never reaches the end of the step", () => {
    let before = 40;
    for (let second = 1; second < 1800; second += 1) {
      const shown = percentAt(creating, begun + second * 1000) ?? 0;
      expect(shown).toBeGreaterThan(before);
      expect(shown).toBeLessThan(60);
      before = shown;
    }
  });

  test("it is drawn again once a second", () => {
    render(<ProgressBar progress={creating} name="bar" />);
    const seen = [drawn()];
    for (let second = 0; second < 5; second += 1) {
      act(() => vi.advanceTimersByTime(1000));
      seen.push(drawn());
    }
    expect(new Set(seen).size).toBe(6);
    expect(seen).toEqual([...seen].sort((a, b) => a - b));
  });

  test.each([
    ["nothing works on it", operation({ percent: 42, motion: null })],
    ["it has ended", operation({ percent: 42, motion, status: "failed" })],
    ["the server's clock is ahead", operation({ percent: 42, motion: { ...motion, since: "2026-05-04T10:00:00Z" } })],
    ["nothing is expected", operation({ percent: 42, motion: { ...motion, expected_seconds: 0 } })],
    ["the server is older", operation({ percent: 42 })],
  ])("it stands still if %s", (_, progress) => {
    expect(percentAt(progress, begun + 60_000)).toBe(42);
  });

  test("what is nearly over is not said to be over", () => {
    expect(written(59.99999, 2)).toBe("59.99");
    expect(written(16.67, 2)).toBe("16.67");
  });
});
