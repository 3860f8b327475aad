import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { signedIn } from "../testing/examples";
import { Site } from "../testing/site";
import { type Output, OutputReading } from "./output";

let site: Site;
let stop: () => void = () => undefined;
let shown: Output | undefined;

beforeEach(() => {
  signedIn("viewer");
  site = new Site();
  shown = undefined;
});

afterEach(() => {
  stop();
  vi.unstubAllGlobals();
});

const bytes = (text: string) => new TextEncoder().encode(text);
const state = (name: string) => ({ headers: { "Muster-Command-State": name } });
const until = (holds: () => void) => vi.waitFor(holds, { timeout: 10_000 });

function begin(): void {
  stop = new OutputReading("cmd-1", (output) => (shown = output)).start();
}

test("after a break it goes on where it stopped, in the middle of a letter too", async () => {
  const euro = bytes("€");
  const streams = [
    [bytes("one\n"), euro.slice(0, 1)],
    [euro.slice(1), bytes(" two\n")],
  ];
  const offsets: string[] = [];
  site.answers("/commands/cmd-1/output", (path) => {
    const query = new URLSearchParams(path.split("?")[1]);
    offsets.push(query.get("offset") ?? "");
    if (!query.has("follow")) return new Response("", state(offsets.length > 3 ? "exited" : "running"));
    const pieces = streams.shift() ?? [];
    return new Response(new Blob(pieces as BlobPart[]).stream(), state("running"));
  });
  begin();
  await until(() => expect(shown?.whole).toBe(true));
  expect(shown?.text).toBe("one\n€ two\n");
  expect(offsets).toEqual(["0", "5", "5", "12"]);
});

test("what the server doesn't know is said, and not asked for again", async () => {
  const problem = { code: "not_found", detail: "there is no command cmd-1" };
  site.answers("/commands/cmd-1/output", () => Response.json(problem, { status: 404 }));
  begin();
  await until(() => expect(shown?.error?.message).toBe("there is no command cmd-1"));
  expect(site.count("/commands/cmd-1/output")).toBe(1);
});

test("a server that is away is asked again", async () => {
  let asked = 0;
  site.answers("/commands/cmd-1/output", () => {
    asked += 1;
    if (asked === 1) return Response.json({ code: "store_unavailable", detail: "later" }, { status: 503 });
    return new Response(asked === 2 ? "here\n" : "", state("exited"));
  });
  begin();
  await until(() => expect(shown).toEqual({ text: "here\n", dropped: 0, whole: true, error: null }));
});
