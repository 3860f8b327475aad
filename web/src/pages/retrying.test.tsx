import { render, screen } from "@testing-library/react";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import type { Operation, Template } from "../api/types";
import { operation, signedIn } from "../testing/examples";
import { Site } from "../testing/site";
import { retryOf } from "./operation";
import { ProvisionDialog, usual } from "./provision";

const template = (name: string, paused = false) =>
  ({ name, paused, usage: ["on-demand"], instance_types: ["*"], resource_class: "small" }) as Template;

beforeEach(() => {
  HTMLDialogElement.prototype.showModal ??= () => undefined;
  signedIn("operator");
  const site = new Site();
  site.answers("/templates", () => Response.json({ items: [template("a"), template("ci")] }));
  site.answers("/pools", () => Response.json({ items: [] }));
});
afterEach(() => vi.unstubAllGlobals());

test("a failed provision is asked for again with all that was asked before", async () => {
  const request = { count: 3, resource_class: "large", usage: ["spot", "on-demand"], queue_timeout: 600 };
  const href = retryOf(operation({ status: "failed", request: request as unknown as Operation["request"] }));
  history.replaceState(null, "", href);
  render(<ProvisionDialog template="ci" />);
  expect((await screen.findByTestId("equivalent")).textContent).toBe(
    "muster provision --template ci --count 3 --run ci-42 --class large --usage-class spot --usage-class on-demand" +
      " --queue-timeout 10m",
  );
});

test.each([
  ["what runs", operation({ status: "running" })],
  ["what succeeded", operation({ status: "succeeded" })],
  ["a run, whose environment isn't kept", operation({ kind: "run", status: "failed" })],
])("there is no retry of %s", (_, given) => {
  expect(retryOf(given)).toBe("");
});

test("the template that the command line would take is chosen first, and never a paused one", () => {
  expect(usual([template("a"), template("default")])).toBe("default");
  expect(usual([template("a", true), template("b")])).toBe("b");
  expect(usual([template("a"), template("default", true)])).toBe("a");
  expect(usual([template("a", true)])).toBe("a");
});
