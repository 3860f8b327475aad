import { render, screen } from "@testing-library/react";
import { expect, test } from "vitest";
import { failure } from "../testing/examples";
import { FailureCard } from "./failure";
import { Prose } from "./words";

test("a command in a sentence of the server is set as one, and stays text", () => {
  const { container } = render(<Prose>{"Resume it: `muster resume <b>ci</b>`. Then `wait`."}</Prose>);
  expect([...container.querySelectorAll("code")].map((each) => each.textContent)).toEqual([
    "muster resume <b>ci</b>",
    "wait",
  ]);
  expect(container.textContent).toBe("Resume it: muster resume <b>ci</b>. Then wait.");
});

test("a failure is told once: by its diagnosis, else by its message", () => {
  const diagnosis = { cause: "dns", summary: "No name server answers.", advice: "fix it", evidence: null };
  const given = failure({ message: "node-1 was lost", advice: "look", diagnosis: diagnosis as never });
  const { rerender } = render(<FailureCard error={given} />);
  expect(screen.getByTestId("operation-error").textContent).toBe(
    "Boot timeoutNo name server answers.What to do: fix it.",
  );
  rerender(<FailureCard error={{ ...given, diagnosis: null }} />);
  expect(screen.getByTestId("operation-error").textContent).toBe("Boot timeoutNode-1 was lostWhat to do: look.");
});
