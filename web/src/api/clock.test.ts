import { describe, expect, test } from "vitest";
import { ServerClock } from "./clock";

describe("the server's clock", () => {
  test("is ours until it was heard of", () => {
    expect(new ServerClock(() => 5000).now()).toBe(5000);
  });

  test("is told by whole seconds, and narrowed down by every answer", () => {
    let local = 0;
    const clock = new ServerClock(() => local);
    const truth = () => local + 90_250;
    for (const at of [0, 700, 1900, 3300, 4650]) {
      local = at;
      clock.heard(new Date(Math.floor(truth() / 1000) * 1000).toUTCString(), local);
    }
    expect(Math.abs(clock.now() - truth())).toBeLessThan(150);
  });

  test("that was set anew is believed", () => {
    const clock = new ServerClock(() => 0);
    clock.heard(new Date(0).toUTCString(), 0);
    clock.heard(new Date(3_600_000).toUTCString(), 0);
    expect(clock.now()).toBe(3_600_500);
  });

  test.each([null, "", "yesterday"])("is not told by %j", (date) => {
    const clock = new ServerClock(() => 7);
    clock.heard(date, 0);
    expect(clock.now()).toBe(7);
  });
});
