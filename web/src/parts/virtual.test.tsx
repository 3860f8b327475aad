import { render, screen } from "@testing-library/react";
import { expect, test } from "vitest";
import { VirtualTable } from "./virtual";

test("of ten thousand rows only those in sight are in the page, and the table says how many there are", () => {
  const rows = Array.from({ length: 10_000 }, (_, index) => `row ${index}`);
  render(
    <VirtualTable
      rows={rows}
      height={38}
      label="Nodes"
      columns={1}
      head={null}
      keyOf={(row) => row}
      className=""
      rowTestId="node-row"
    >
      {(row) => <span role="cell">{row}</span>}
    </VirtualTable>,
  );
  expect(screen.getAllByTestId("node-row").length).toBeLessThan(60);
  expect(screen.getByRole("table").getAttribute("aria-rowcount")).toBe("10001");
  expect(screen.getAllByTestId("node-row")[0]?.getAttribute("aria-rowindex")).toBe("2");
});
