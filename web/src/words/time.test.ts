import { describe, expect, test } from "vitest";
import { about, ago, given, running, took } from "./time";

describe("durations in words", () => {
  test.each([
    [0, "0m 00s"],
    [-5, "0m 00s"],
    [59.9, "0m 59s"],
    [60, "1m 00s"],
    [3599, "59m 59s"],
    [3600, "1h 00m"],
    [172_799, "47h 59m"],
    [172_800, "2d 0h"],
  ])("running %d", (seconds, words) => expect(running(seconds)).toBe(words));

  test.each([
    [0.42, "0.42 s"],
    [1, "1.0 s"],
    [59.94, "59.9 s"],
    [60, "1m 00s"],
  ])("took %d", (seconds, words) => expect(took(seconds)).toBe(words));

  test.each([
    [45, "45 s"],
    [120, "2m"],
    [390, "6m 30s"],
    [5400, "1h 30m"],
  ])("given %d", (seconds, words) => expect(given(seconds)).toBe(words));

  test.each([
    [0.2, "1 s"],
    [89, "89 s"],
    [90, "2 min"],
    [7200, "2 h"],
  ])("about %d", (seconds, words) => expect(about(seconds)).toBe(words));

  test.each([
    [-1, "just now"],
    [2, "2 s ago"],
    [60, "1 min ago"],
    [3600, "1 h ago"],
    [172_800, "2 d ago"],
  ])("%d ago", (seconds, words) => expect(ago(seconds)).toBe(words));
});
