import { render, screen, waitFor } from "@testing-library/react";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { session } from "../api/session";
import { Site } from "../testing/site";
import { Entrance } from "./entrance";

let site: Site;

beforeEach(() => {
  site = new Site();
});
afterEach(() => {
  vi.unstubAllGlobals();
});

describe("the entrance", () => {
  test("offers the identity provider beside the token, and comes back to the same place", async () => {
    site.answers("/sign-in", () => Response.json({ name: "Example Login", signed_in: false, notice: "" }));
    history.replaceState(null, "", "/nodes?state=idle");
    render(<Entrance />);
    const link = await screen.findByRole("link", { name: "Sign in with Example Login" });
    expect(link.getAttribute("href")).toBe("/api/v1/sign-in/start?to=%2Fnodes%3Fstate%3Didle");
    expect(screen.getByLabelText("Token")).toBeTruthy();
  });

  test("asks for a token alone where there is no provider, or no answer", async () => {
    site.answers("/sign-in", () => Promise.reject(new TypeError("network")));
    render(<Entrance />);
    expect(await screen.findByLabelText("Token")).toBeTruthy();
    expect(screen.queryByRole("link", { name: /Sign in with/ })).toBeNull();
  });

  test("says why the last attempt failed", async () => {
    site.answers("/sign-in", () => Response.json({ name: "X", signed_in: false, notice: "no rule covers Ada" }));
    render(<Entrance />);
    expect((await screen.findByRole("alert")).textContent).toBe("no rule covers Ada");
  });

  test("takes up the session of this browser, without a header", async () => {
    site.answers("/sign-in", () => Response.json({ name: "X", signed_in: true, notice: "" }));
    render(<Entrance />);
    await waitFor(() => expect(session.get().token).toBe(""));
    expect(site.asked.every((each) => !each.headers.has("Authorization"))).toBe(true);
  });
});
