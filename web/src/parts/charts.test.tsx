import { render, screen } from "@testing-library/react";
import { describe, expect, test } from "vitest";
import { bins, BootChart, Histogram } from "./charts";

const TOTAL = { count: 3, p50: 44, p95: 61, p99: 70.2, longest: 70.2 };

describe("bins", () => {
  test.each([[[]], [[5]], [[5, 5, 5]], [[0]], [[0.1, 900]], [[44, 61, 70.2]], [[Number.NaN, 3]]])(
    "hold every boot of %j once, in a bounded number of bins",
    (values) => {
      const found = bins(values);
      expect(found.reduce((sum, bin) => sum + bin.count, 0)).toBe(values.filter(Number.isFinite).length);
      expect(found.length).toBeLessThanOrEqual(30);
    },
  );
});

describe("the histogram", () => {
  test.each([
    [80, false],
    [720, true],
  ])("draws p50, p95, p99 and the deadline of %d s in, also if that is far away", (seconds, far) => {
    render(<Histogram seconds={[44, 61, 70.2]} total={TOTAL} deadline={{ seconds, source: "default" }} />);
    const words = screen.getByRole("img").textContent ?? "";
    for (const mark of ["p50 44.0 s", "p95 1m 01s", "p99 1m 10s", "deadline"]) expect(words).toContain(mark);
    expect(words.includes("→")).toBe(far);
  });

  test("tells the same to who can't see it", () => {
    render(<Histogram seconds={[44]} total={TOTAL} deadline={{ seconds: 720, source: "default" }} />);
    expect(screen.getByRole("img").getAttribute("aria-label")).toContain("p95 1m 01s, p99 1m 10s; deadline 12m");
  });
});

describe("a boot", () => {
  test("is drawn phase by phase, each after the other", () => {
    const spans = [
      { name: "launch", seconds: 2 },
      { name: "boot_script: warming caches", seconds: 6 },
    ];
    const { container } = render(
      <BootChart
        live={false}
        timeline={{ node_id: "node-1", created_at: "", booted_at: null, seconds: 8, spans, usual: null }}
      />,
    );
    const bars = [...container.querySelectorAll<HTMLElement>(".boot-bar")];
    expect(bars.map((bar) => [bar.style.left, bar.style.width])).toEqual([
      ["0%", "25%"],
      ["25%", "75%"],
    ]);
    expect(container.textContent).toContain("› warming caches");
  });
});
