import { fireEvent, render, screen, waitFor } from "@testing-library/react";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { signedIn } from "../testing/examples";
import { Site } from "../testing/site";
import { DevicePage } from "./device";

const WAITS = { user_code: "BCDF-GHJK", machine: "ada-laptop", settled: null };
let site: Site;

beforeEach(() => {
  site = new Site();
  signedIn("operator");
});
afterEach(() => {
  vi.unstubAllGlobals();
});

describe("a terminal that asks to be signed in", () => {
  test.each([
    ["Confirm", "confirm", "confirmed", /is signed in/],
    ["Deny", "deny", "denied", /was refused/],
  ])("%s", async (name, how, settled, words) => {
    history.replaceState(null, "", "/device?code=BCDF-GHJK");
    site.answers("/device/BCDF-GHJK", (path) => Response.json(path.endsWith(how) ? { ...WAITS, settled } : WAITS));
    render(<DevicePage />);
    fireEvent.click(await screen.findByRole("button", { name }));
    expect((await screen.findByRole("status")).textContent).toMatch(words);
    expect(site.asked.at(-1)?.method).toBe("POST");
  });

  test("a code that is not known can be typed again", async () => {
    history.replaceState(null, "", "/device?code=XXXX-XXXX");
    site.answers("/device/", () => Response.json({ code: "not_found", detail: "no" }, { status: 404 }));
    render(<DevicePage />);
    expect((await screen.findByRole("alert")).textContent).toContain("XXXX-XXXX");
    fireEvent.change(screen.getByLabelText("Code"), { target: { value: "bcdf ghjk" } });
    site.answers("/device/bcdf%20ghjk", () => Response.json(WAITS));
    fireEvent.click(screen.getByRole("button", { name: "Continue" }));
    await waitFor(() => expect(location.search).toBe("?code=bcdf+ghjk"));
    expect(await screen.findByText("ada-laptop")).toBeTruthy();
  });
});
