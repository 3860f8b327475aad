import { act, fireEvent, render, screen, waitFor, within } from "@testing-library/react";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { clock } from "../api/clock";
import type { Backlog, Undelivered } from "../api/types";
import { event, NOW, signedIn } from "../testing/examples";
import { Site } from "../testing/site";
import { UndeliveredCard } from "./overview-undelivered";

let site: Site;

beforeEach(() => {
  signedIn("operator");
  site = new Site();
  vi.spyOn(clock, "now").mockReturnValue(NOW);
});

afterEach(() => {
  vi.restoreAllMocks();
  vi.unstubAllGlobals();
});

const backlog = (changes: Partial<Backlog> = {}): Backlog => ({
  webhook: "chat",
  waiting: 1,
  given_up: 1,
  oldest_since: "2026-05-04T09:00:12Z",
  given_up_at: "2026-05-04T09:10:12Z",
  problem: "hooks.example.com answered 500",
  removed: false,
  ...changes,
});
const message = (changes: Partial<Undelivered> = {}): Undelivered => ({
  id: "chat.ev-1",
  webhook: "chat",
  type: "operation.failed",
  state: "waiting",
  since: "2026-05-04T09:00:12Z",
  tries: 4,
  tried_at: "2026-05-04T09:29:12Z",
  due_at: "2026-05-04T09:32:12Z",
  given_up_at: null,
  problem: "hooks.example.com answered 500",
  event: event({ entity: "operation", entity_id: "op-1", name: "ended" }),
  ...changes,
});
const given = message({
  id: "chat.ev-2",
  state: "given_up",
  tries: 1,
  due_at: null,
  given_up_at: "2026-05-04T09:10:12Z",
  problem: "hooks.example.com answered 404",
  event: event({ entity: "installation", entity_id: "muster", name: "token_added" }),
});
const refreshed = vi.fn();
const shown = (backlogs: Backlog[], items: Undelivered[] = [message(), given], next: string | null = null) => {
  site.answers("/webhooks/undelivered", () => Response.json({ items, next }));
  return render(<UndeliveredCard backlogs={backlogs} refresh={refreshed} />);
};
const posted = () =>
  site.asked.filter(({ method }) => method === "POST").map(({ path, body }) => `${path} ${JSON.stringify(body)}`);

test("what waits and what was given up is told, with since when, why, the last try and the next one", async () => {
  shown([backlog()]);
  const line = screen.getByTestId("backlog").textContent ?? "";
  for (const each of ["chat", "1 waiting", "1 given up", "Hooks.example.com answered 500", "oldest 30m 00s"]) {
    expect(line).toContain(each);
  }
  const [waits, over] = await screen.findAllByTestId("message");
  expect(waits?.textContent).toContain("operation.failed op-1");
  expect(waits?.textContent).toContain("wanted 30 min ago · tried 4 times, last 1 min ago · next try in 2m 00s");
  expect(
    within(waits as HTMLElement)
      .getByRole("link")
      .getAttribute("href"),
  ).toBe("/operations/op-1");
  expect(over?.textContent).toContain("answered 404");
  expect(over?.textContent).toContain("tried 1 time, last 1 min ago · given up 20 min ago");
});

test("a message that waits for another one was not tried, and one whose time came is due", async () => {
  const behind = message({ id: "b", tries: 0, tried_at: null, due_at: "2026-05-04T09:00:12Z" });
  const due = message({ id: "d", due_at: "2026-05-04T09:30:12Z" });
  shown([backlog()], [behind, due]);
  const [first, second] = await screen.findAllByTestId("message");
  expect(first?.textContent).toContain("· not tried yetResend");
  expect(second?.textContent).toContain("· due now");
});

test("a message is sent again, or forgotten after a question if it was given up", async () => {
  shown([backlog()]);
  await screen.findAllByTestId("message");
  expect(screen.queryByRole("button", { name: "Forget chat.ev-1" })).toBeNull(); // it still waits
  await act(async () => fireEvent.click(screen.getByRole("button", { name: "Resend chat.ev-1" })));
  fireEvent.click(screen.getByRole("button", { name: "Forget chat.ev-2" }));
  expect(screen.getByRole("dialog", { name: "Forget 1 message of chat?" })).toBeTruthy();
  expect(posted()).toHaveLength(1);
  await act(async () => fireEvent.click(screen.getByRole("button", { name: "Forget" })));
  expect(posted()).toEqual([
    '/webhooks/resend {"webhook":"chat","ids":["chat.ev-1"]}',
    '/webhooks/forget {"webhook":"chat","ids":["chat.ev-2"]}',
  ]);
  expect(refreshed).toHaveBeenCalledTimes(2);
  await waitFor(() => expect(site.count("/webhooks/undelivered")).toBeGreaterThan(1));
});

test("all of a webhook are sent again or forgotten at once", async () => {
  shown([backlog({ given_up: 7 })]);
  await act(async () => fireEvent.click(screen.getByRole("button", { name: "Resend all chat" })));
  fireEvent.click(screen.getByRole("button", { name: "Forget given up chat" }));
  expect(screen.getByRole("dialog", { name: "Forget 7 messages of chat?" })).toBeTruthy();
  await act(async () => fireEvent.click(screen.getByRole("button", { name: "Forget" })));
  expect(posted()).toEqual(['/webhooks/resend {"webhook":"chat"}', '/webhooks/forget {"webhook":"chat"}']);
});

test("of a webhook that left the settings everything can only be forgotten", async () => {
  shown([backlog({ removed: true, given_up: 0 })], [message()]);
  await screen.findAllByTestId("message");
  expect(screen.getByText("not in the settings any more")).toBeTruthy();
  expect(screen.queryByRole("button", { name: /^Resend/ })).toBeNull();
  expect(screen.getByRole("button", { name: "Forget all chat" })).toBeTruthy();
});

test("while nothing was given up there is nothing to forget", async () => {
  shown([backlog({ given_up: 0 })], [message()]);
  await screen.findAllByTestId("message");
  expect(screen.queryByRole("button", { name: /^Forget/ })).toBeNull();
});

test("a viewer reads all of it and has no buttons", async () => {
  signedIn("viewer");
  shown([backlog()]);
  expect(await screen.findAllByTestId("message")).toHaveLength(2);
  expect(screen.queryByRole("button")).toBeNull();
});

test("messages of several webhooks are read when one asks for them, and more of them on request", async () => {
  shown([backlog(), backlog({ webhook: "ops" })], [message()], "later");
  expect(site.count("/webhooks/undelivered")).toBe(0);
  const [first] = screen.getAllByTestId("backlog");
  fireEvent.click(within(first as HTMLElement).getByText("2 messages"));
  await screen.findByTestId("message");
  expect(site.asked.at(-1)?.path).toBe("/webhooks/undelivered?webhook=chat&limit=10");
  fireEvent.click(screen.getByRole("button", { name: "Show more" }));
  await screen.findByText("muster webhooks undelivered chat");
  expect(site.asked.at(-1)?.path).toBe("/webhooks/undelivered?webhook=chat&limit=500");
});

test("without undelivered messages there is no block", () => {
  expect(shown([]).container.textContent).toBe("");
});
