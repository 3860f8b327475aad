import { fireEvent, render, screen, waitFor } from "@testing-library/react";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { operation, signedIn } from "../testing/examples";
import { Site } from "../testing/site";
import Palette from "./palette";
import { PaletteKey } from "./palette-key";

let site: Site;

beforeEach(() => {
  HTMLDialogElement.prototype.showModal ??= () => undefined;
  signedIn("operator");
  site = new Site();
  site.answers("/operations", () => Response.json({ items: [operation({ run: "ci-42" })], next: null }));
});
afterEach(() => vi.unstubAllGlobals());

const selected = () => screen.getAllByRole("option").find((each) => each.getAttribute("aria-selected") === "true");

test("arrows choose, and the field tells a screen reader which; Enter goes there", async () => {
  const close = vi.fn();
  render(<Palette close={close} />);
  const field = screen.getByRole("combobox", { name: "Search everything" });
  fireEvent.change(field, { target: { value: "ci-42" } });
  await waitFor(() => expect(selected()?.textContent).toContain("Provision ci-42"));
  fireEvent.keyDown(field, { key: "ArrowDown" });
  expect(field.getAttribute("aria-activedescendant")).toBe(selected()?.id);
  expect(selected()?.textContent).toContain("Operations of run “ci-42”");
  fireEvent.keyDown(field, { key: "ArrowUp" });
  fireEvent.keyDown(field, { key: "Enter" });
  expect(close).toHaveBeenCalled();
  expect(location.pathname).toBe("/operations/op-1hx2k9q0c7m3t8v5e1");
});

test("a job is found by its id, once, and Enter goes to its page", async () => {
  site.answers("/jobs", () =>
    Response.json({ items: [{ id: "github-7", state: "queued", name: "build" }], next: null }),
  );
  render(<Palette close={() => undefined} />);
  const field = screen.getByRole("combobox");
  fireEvent.change(field, { target: { value: "github-7" } });
  await waitFor(() => expect(selected()?.textContent).toContain("build"));
  expect(screen.getAllByRole("option").filter((each) => each.textContent?.startsWith("job"))).toHaveLength(1);
  fireEvent.keyDown(field, { key: "Enter" });
  expect(location.pathname).toBe("/jobs/github-7");
});

test("the choice wraps around at both ends", () => {
  render(<Palette close={() => undefined} />);
  const field = screen.getByRole("combobox");
  fireEvent.keyDown(field, { key: "ArrowUp" });
  const options = screen.getAllByRole("option");
  expect(selected()).toBe(options.at(-1));
  fireEvent.keyDown(field, { key: "ArrowDown" });
  expect(selected()).toBe(screen.getAllByRole("option")[0]);
});

test("a server that does not answer leaves pages and searches", async () => {
  site.answers("/", () => Promise.reject(new TypeError("network")));
  render(<Palette close={() => undefined} />);
  fireEvent.change(screen.getByRole("combobox"), { target: { value: "nodes" } });
  expect(selected()?.textContent).toContain("Nodes");
});

test("Ctrl-K opens it, but in a terminal it belongs to the shell", async () => {
  render(
    <>
      <PaletteKey />
      <div className="xterm">
        <textarea aria-label="Terminal" />
      </div>
    </>,
  );
  fireEvent.keyDown(screen.getByLabelText("Terminal"), { key: "k", ctrlKey: true });
  fireEvent.keyDown(document.body, { key: "k" });
  expect(screen.queryByTestId("palette")).toBeNull();
  fireEvent.keyDown(document.body, { key: "k", ctrlKey: true });
  expect(await screen.findByTestId("palette")).toBeTruthy();
});
