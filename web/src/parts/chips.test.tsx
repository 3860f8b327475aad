import { render, screen } from "@testing-library/react";
import { describe, expect, test } from "vitest";
import type { Part, Tone } from "../api/types";
import { part } from "../testing/examples";
import { Chips } from "./chips";

const shapes = (chip: HTMLElement) => chip.querySelector("svg")?.innerHTML;

describe("a chip", () => {
  test.each<[Tone]>([["pending"], ["active"], ["success"], ["warning"], ["danger"]])(
    "of tone %s has a colour, a sign and words",
    (tone) => {
      render(<Chips parts={[part({ tone })]} />);
      const chip = screen.getByTestId("chip");
      expect(chip.className).toContain(`tone-${tone}`);
      expect(shapes(chip)).toBeTruthy();
      expect(chip.textContent).toContain("Creating");
    },
  );

  test("each tone has a sign of its own: colour alone tells nothing", () => {
    const tones: Tone[] = ["pending", "active", "success", "warning", "danger"];
    render(<Chips parts={tones.map((tone) => part({ id: tone, tone }))} />);
    expect(new Set(screen.getAllByTestId("chip").map(shapes)).size).toBe(tones.length);
  });

  test("of a node pool names it, its state and how many it holds", () => {
    render(<Chips parts={[part({ name: "blastpool", count: 10, detail: "ARM 1m 40s" })]} />);
    expect(screen.getByTestId("chip").textContent).toBe("10 ×blastpoolCreatingARM 1m 40s");
  });

  test("of a node leads to it", () => {
    render(<Chips parts={[part({ id: "node-7", name: "node-7" })]} />);
    expect(screen.getByRole("link").getAttribute("href")).toBe("/nodes/node-7");
  });

  test("of a group says how many, once", () => {
    render(<Chips parts={[part({ id: "booting", name: "booting", state: "booting", count: 40 })]} />);
    expect(screen.getByTestId("chip").textContent).toBe("40 ×booting");
  });

  test("without a tone, or with one from the future, is pending", () => {
    const { tone: _, ...plain } = part({});
    render(<Chips parts={[plain as Part, part({ id: "b", tone: "sparkling" as Tone })]} />);
    for (const chip of screen.getAllByTestId("chip")) expect(shapes(chip)).toBeTruthy();
  });

  test("shows the ends of many long names, and whole ones of a few", () => {
    const name = "node-1hx2k9q0c7m3t8v5e2";
    const { rerender } = render(<Chips parts={[part({ id: name, name })]} />);
    expect(screen.getByTestId("chip").textContent).toContain(name);
    rerender(<Chips parts={Array.from({ length: 7 }, (_, index) => part({ id: `node-${index}`, name }))} />);
    expect(screen.getAllByTestId("chip")[0]?.textContent).toContain("…8v5e2".slice(-5));
    expect(screen.getAllByTestId("chip")[0]?.textContent).not.toContain(name);
  });
});
