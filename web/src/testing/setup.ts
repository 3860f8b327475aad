import { cleanup, configure } from "@testing-library/react";
import { afterEach } from "vitest";
import { session } from "../api/session";
import { forgetAll } from "../live/resource";

configure({ asyncUtilTimeout: 20_000 }); // how fast a busy machine is, is no finding

afterEach(() => {
  cleanup();
  session.ended("");
  forgetAll();
  history.replaceState(null, "", "/");
});
