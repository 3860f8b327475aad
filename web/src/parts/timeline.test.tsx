import { render, screen } from "@testing-library/react";
import { describe, expect, test } from "vitest";
import type { PoolPoint, TemplateHistory } from "../api/types";
import { busiest, failureRate } from "../live/pool-history";
import { described, PoolTimeline, reach, ReadyChart, Sparkline, stretches } from "./timeline";

const MINUTE = 60_000;
const start = Date.parse("2026-05-04T00:00:00Z");
const span = { since: start, until: start + 24 * 60 * MINUTE, step: 5 * MINUTE };
const point = (minute: number, changes: Partial<PoolPoint> = {}): PoolPoint => ({
  at: new Date(start + minute * MINUTE).toISOString(),
  running: 0,
  booting: 0,
  idle: 0,
  other: 0,
  min_idle: 0,
  max_nodes: 12,
  ...changes,
});
const history = (changes: Partial<TemplateHistory> = {}): TemplateHistory => ({
  template: "ci",
  points: [point(0, { running: 3, idle: 2 }), point(5, { running: 7, booting: 1 })],
  ready: [],
  boots: 0,
  boot_p50: null,
  failed: 0,
  ...changes,
});

describe("a day of a pool", () => {
  test("says in words what it draws: what is now, and the most there was", () => {
    render(<PoolTimeline item={history()} span={span} />);
    const words = screen.getByRole("img").getAttribute("aria-label");
    expect(words).toMatch(/^ci: last 7 running, 1 booting, 0 idle of 12; most at \d\d:\d\d: 8 nodes$/);
    expect(screen.getByTestId("timeline").textContent).toContain("7 running");
    expect(screen.getByTestId("timeline").textContent).toContain("cap 12");
  });

  test("has a gap where no server was up", () => {
    const points = [point(0), point(5), point(60), point(65)];
    expect(stretches(points, span.step).map((some) => some.length)).toEqual([2, 2]);
    const { container } = render(<PoolTimeline item={history({ points })} span={span} />);
    expect(container.querySelector(".timeline-running")?.getAttribute("d")?.match(/M/g)).toHaveLength(2);
  });

  test("draws the cap only where use comes near it", () => {
    const far = [point(0, { running: 2, max_nodes: 1000 })];
    const { container, rerender } = render(<PoolTimeline item={history({ points: far })} span={span} />);
    expect(container.querySelector(".timeline-cap")).toBeNull();
    rerender(<PoolTimeline item={history()} span={span} />);
    expect(container.querySelector(".timeline-cap")).not.toBeNull();
  });

  test("has the most there was and the cap as its scale", () => {
    const { container } = render(<PoolTimeline item={history()} span={span} />);
    const words = [...container.querySelectorAll("svg text")].map((each) => each.textContent);
    expect(words).toContain("8");
    expect(words).toContain("cap 12");
  });

  test("says since when, on a server that began today", () => {
    const until = "2026-05-04T12:00:00Z";
    expect(reach({ since: "2026-05-04T11:30:00Z", until })).toMatch(/^since \d\d:\d\d$/);
    expect(reach({ since: "2026-05-03T12:00:00Z", until })).toBe("last 24 hours");
  });

  test("without a sample says so", () => {
    expect(described(history({ points: [] }))).toBe("ci: no samples yet");
    render(<PoolTimeline item={history({ points: [] })} span={span} />);
    expect(screen.getByText("no samples yet")).toBeTruthy();
  });
});

test("hand-overs are told by how long they took, and which were all warm", () => {
  const ready = [1, 2, 9].map((seconds) => ({ at: point(10).at, seconds, nodes: 2, warm: seconds === 1 ? 2 : 0 }));
  render(<ReadyChart item={history({ ready })} span={span} />);
  expect(screen.getByRole("img").getAttribute("aria-label")).toBe(
    "3 provisions: half were ready within 2.0 s, all within 9.0 s",
  );
  expect(screen.getByTestId("ready-chart").textContent).toContain("1 all warm");
});

test("a sparkline of nothing is a dash", () => {
  const { container } = render(<Sparkline item={history({ points: [point(0, { idle: 4 })] })} span={span} />);
  expect(container.textContent).toBe("–");
});

test("the busiest pool comes first, and idle templates are left out", () => {
  const items = [
    history({ template: "a", points: [point(0, { idle: 1 })] }),
    history({ template: "b" }),
    history({ template: "c", points: [point(0)] }),
  ];
  const given = { since: "", until: "", step_seconds: 300, items };
  expect(busiest(given).map((each) => each.template)).toEqual(["b", "a"]);
});

test("a failure rate counts boots that failed among all, and is unknown without any", () => {
  expect(failureRate({ boots: 3, failed: 1 })).toBe(0.25);
  expect(failureRate({ boots: 0, failed: 0 })).toBeNull();
});
