// Leaves in package-lock.json what `npm ci` goes by. Addresses where packages ask for money are none of that.
import { readFileSync, writeFileSync } from "node:fs";

const place = new URL("../package-lock.json", import.meta.url);
const lock = JSON.parse(readFileSync(place, "utf8"));
for (const told of Object.values(lock.packages)) delete told.funding;
writeFileSync(place, `${JSON.stringify(lock, null, 2)}\n`);
