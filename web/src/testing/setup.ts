import { cleanup, configure } from "@testing-library/react";
import { afterEach } from "vitest";
import { session } from "../api/session";

configure({ asyncUtilTimeout: 20_000 }); // how fast a busy machine is, is no finding

afterEach(() => {
  cleanup();
  session.ended("");
  history.replaceState(null, "", "/");
});
