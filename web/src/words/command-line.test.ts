import { expect, test } from "vitest";
import { provisionCommand, quoted } from "./command-line";

test("a request is the command that does the same", () => {
  expect(provisionCommand({ template: "ci", count: 2, run: "pr-7" })).toBe(
    "muster provision --template ci --count 2 --run pr-7",
  );
  const more = { resource_class: "large", usage: ["spot", "on-demand"], instance_types: ["c*", "m5.large"] };
  expect(provisionCommand({ template: "ci", count: 1, run: "a b", ...more, queue_timeout: 600 })).toBe(
    "muster provision --template ci --count 1 --run 'a b' --class large --usage-class spot --usage-class on-demand" +
      " --types 'c*,m5.large' --queue-timeout 10m",
  );
});

test("a word can't leave its quotes", () => {
  expect(quoted("it's; rm -rf $HOME")).toBe("'it'\\''s; rm -rf $HOME'");
  expect(quoted("a'b'c")).toBe("'a'\\''b'\\''c'");
  expect(quoted("")).toBe("''");
});
