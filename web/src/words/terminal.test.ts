import { describe, expect, test } from "vitest";
import { TerminalTail } from "./terminal";

function shown(...pieces: string[]): string {
  const tail = new TerminalTail();
  for (const piece of pieces) tail.take(piece);
  return tail.text;
}

describe("what was written for a terminal", () => {
  test.each([
    ["plain\ntext\n", "plain\ntext\n"],
    ["\x1b[31mred\x1b[0m and \x1b[1;38;5;208mbold\x1b[m\n", "red and bold\n"],
    ["\x1b]0;a title\x07after", "after"],
    ["\x1b]8;;mailto:somebody\x1b\\link\x1b]8;;\x1b\\", "link"],
    ["\x1b[2J\x1b[Hcleared", "cleared"],
    ["\x1b(Bcharset \x1b7saved\x1b8", "charset saved"],
    ["\x1bPdevice string\x1b\\after", "after"],
    ["10 %\r50 %\r100 %\ndone", "100 %\ndone"],
    ["one\r\ntwo\r\n", "one\ntwo\n"],
    ["a\x07b\x00c\x7fd\x9be", "a\ufffdb\ufffdc\ufffdd\ufffde"],
    ["abc\u202etxt.exe", "abc\ufffdtxt.exe"],
    ["tab\tkept, <b>markup</b> is text", "tab\tkept, <b>markup</b> is text"],
  ])("%j is shown as %j", (written, text) => {
    expect(shown(written)).toBe(text);
    expect(shown(...written), "in whatever pieces it comes").toBe(text);
  });

  test("half an escape waits for its rest, and what never ends is no escape", () => {
    expect(shown("a\x1b[3")).toBe("a");
    expect(shown("a\x1b[3", "1mb")).toBe("ab");
    expect(shown(`a\x1b]${"x".repeat(2000)}`)).not.toContain("\x1b");
  });
});

describe("the end of it", () => {
  test("is kept in whole lines, and what is left out is counted", () => {
    const tail = new TerminalTail(20);
    tail.take("first line\nsecond line\nthird\n");
    expect(tail.text).toBe("second line\nthird\n");
    expect(tail.dropped).toBe("first line\n".length);
  });

  test.each([
    ["lines", "0123456789\n"],
    ["one line", "0123456789"],
    ["a line that begins anew", "0123456789\r"],
    ["an escape that never ends", "\x1b]0;abcdef"],
  ])("never grows beyond its bound by %s", (_, piece) => {
    const tail = new TerminalTail(1000);
    for (let count = 0; count < 2000; count += 1) tail.take(piece);
    expect(tail.text.length).toBeLessThanOrEqual(1000);
  });
});
