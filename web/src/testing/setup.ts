import { cleanup } from "@testing-library/react";
import { afterEach } from "vitest";
import { session } from "../api/session";

afterEach(() => {
  cleanup();
  session.ended("");
  history.replaceState(null, "", "/");
});
