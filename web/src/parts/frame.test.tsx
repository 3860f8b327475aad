import { act, render, screen, waitFor } from "@testing-library/react";
import { afterEach, expect, test, vi } from "vitest";
import { useState } from "react";
import { feed } from "../live/feed";
import { signedIn } from "../testing/examples";
import { Modal } from "./dialog";
import { ConnectionLost } from "./header";
import { Countdown } from "./words";

afterEach(() => {
  feed.stop();
  vi.unstubAllGlobals();
  vi.useRealTimers();
});

test("the alert that the connection is lost says one thing, once; the countdown is beside it", async () => {
  signedIn("viewer");
  vi.stubGlobal("fetch", () => Promise.reject(new TypeError("network")));
  vi.spyOn(Math, "random").mockReturnValue(1);
  render(<ConnectionLost />);
  for (let tries = 0; tries < 4; tries += 1) {
    act(() => (tries === 0 ? feed.start() : feed.retry()));
    await waitFor(() => expect(feed.connection()).toMatchObject({ kind: "lost", tries: tries + 1 }));
  }
  const said = screen.getByRole("alert").textContent;
  const beside = screen.getByText(/^Next try in/).textContent;
  await waitFor(() => expect(screen.getByText(/^Next try in/).textContent).not.toBe(beside), { timeout: 3000 });
  expect(screen.getByRole("alert").textContent).toBe(said);
  vi.restoreAllMocks();
});

test("a dialog gives the focus back to what opened it", () => {
  function Opener() {
    const [open, setOpen] = useState(false);
    return (
      <>
        <button type="button" onClick={() => setOpen(true)}>
          Open
        </button>
        {open && (
          <Modal title="Sure?" close={() => setOpen(false)}>
            <button type="button" data-focus>
              Inside
            </button>
          </Modal>
        )}
      </>
    );
  }
  render(<Opener />);
  const opener = screen.getByText("Open");
  opener.focus();
  act(() => opener.click());
  expect(document.activeElement?.textContent).toBe("Inside");
  act(() => screen.getByLabelText("Close").click());
  expect(document.activeElement).toBe(opener);
});

test("what is over isn't said to be yet to come", () => {
  vi.useFakeTimers({ now: Date.parse("2026-05-04T09:30:05Z"), toFake: ["Date"] });
  const { container, rerender } = render(<Countdown until="2026-05-04T09:30:10Z" ahead="in " />);
  expect(container.textContent).toMatch(/^in /);
  rerender(<Countdown until="2026-05-04T09:20:00Z" ahead="in " />);
  expect(container.textContent).toMatch(/^passed \d+ min ago$/);
});
