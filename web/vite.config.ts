import { defineConfig } from "vitest/config";

// `npm run dev` speaks to a server that is already up; its address is `muster serve`'s default.
const SERVER = "http://127.0.0.1:8420";

export default defineConfig({
  build: {
    outDir: "../src/muster/dashboard",
    emptyOutDir: true,
    target: "es2023",
    assetsInlineLimit: 0, // a data: address would need a wider Content-Security-Policy
    modulePreload: { polyfill: false },
    reportCompressedSize: false, // scripts/budget.mjs measures it, and fails if it is too much
    rolldownOptions: { checks: { pluginTimings: false } }, // a busy machine is no finding
  },
  server: { proxy: { "^/api/": SERVER } },
  test: {
    environment: "happy-dom",
    include: ["src/**/*.test.{ts,tsx}"],
    setupFiles: ["src/testing/setup.ts"],
    isolate: false, // the tests leave nothing behind; a fresh window for each file would take most of the time
    maxWorkers: 1,
    restoreMocks: true,
    testTimeout: 60_000, // ends a test that hangs; how fast a busy machine is, is no finding
  },
});
