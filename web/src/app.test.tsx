import { render, screen, waitFor } from "@testing-library/react";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { App } from "./app";
import { session } from "./api/session";
import { signedIn } from "./testing/examples";
import { Site } from "./testing/site";

let site: Site;

beforeEach(() => {
  site = new Site();
  vi.spyOn(HTMLDialogElement.prototype, "showModal").mockImplementation(function (this: HTMLDialogElement) {
    this.open = true;
  });
});

afterEach(() => {
  vi.restoreAllMocks();
  vi.unstubAllGlobals();
});

describe("the frame around every page", () => {
  test("asks again by itself whose token it is, after nobody answered", async () => {
    const whoami = vi.spyOn(session, "get").mockReturnValue({ token: "muster_secret", who: null, notice: "" });
    site.answers("/whoami", () => Promise.reject(new TypeError("network")));
    render(<App />);
    await waitFor(() => expect(site.count("/whoami")).toBeGreaterThan(1), { timeout: 5000 });
    whoami.mockRestore();
  });

  test("doesn't begin the feed anew when the same token is looked at again", async () => {
    signedIn("viewer");
    history.replaceState(null, "", "/no/such/page");
    render(<App />);
    await waitFor(() => expect(site.count("/events")).toBe(2));
    signedIn("viewer");
    await waitFor(() => expect(screen.getByTestId("connection").dataset["connection"]).toBe("live"));
    expect(site.count("/events")).toBe(2);
  });

  test.each([
    ["/", "Muster"],
    ["/nodes", "Nodes · Muster"],
    ["/templates/ci%20small", "ci small · Templates · Muster"],
    ["/operations/op-1hx2k9q0c7m3t8v5e1", "…t8v5e1 · Operations · Muster"],
  ])("the tab of %s is called %s", (path, title) => {
    site.answers("/", () => new Promise(() => undefined));
    signedIn("viewer");
    history.replaceState(null, "", path);
    render(<App />);
    expect(document.title).toBe(title);
  });

  test.each([
    ["viewer", 0],
    ["operator", 1],
  ] as const)("an address that opens the provision dialog: for a %s, %i dialogs", async (role, count) => {
    signedIn(role);
    history.replaceState(null, "", "/no/such/page?provision=1");
    render(<App />);
    await waitFor(() => expect(screen.getByTestId("connection").dataset["connection"]).toBe("live"));
    expect(document.querySelectorAll("dialog")).toHaveLength(count);
  });
});
