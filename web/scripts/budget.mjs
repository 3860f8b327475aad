// What a first visit loads, gzipped as the server sends it: fails if that is more than the budget.
import { readFileSync, readdirSync } from "node:fs";
import { gzipSync } from "node:zlib";

const BUDGET = 200_000;
const built = new URL("../../src/muster/dashboard/", import.meta.url);
const page = readFileSync(new URL("index.html", built), "utf8");
const named = [...page.matchAll(/(?:src|href)="\/([^"]+)"/g)].map((found) => found[1]);
const sizes = ["index.html", ...named].map((name) => [name, gzipSync(readFileSync(new URL(name, built))).length]);
const total = sizes.reduce((sum, [, size]) => sum + size, 0);
const later = readdirSync(new URL("assets/", built)).filter((name) => !named.includes(`assets/${name}`));

for (const [name, size] of sizes) console.log(`${(size / 1000).toFixed(1).padStart(8)} kB  ${name}`);
console.log(
  `${(total / 1000).toFixed(1).padStart(8)} kB  first load, gzipped; ${BUDGET / 1000} kB are allowed (${later.length} more files load later)`,
);
if (total > BUDGET) {
  console.error(`error: the first load is ${total} bytes, more than ${BUDGET}: leave something out, or load it later`);
  process.exit(1);
}
