/** Parts that load after the page: what a first visit can do without. */

import { lazy, Suspense } from "react";
import { Loading } from "./states";

const Pools = lazy(async () => ({ default: (await import("./pool-charts")).DayOfPools }));
const OfTemplate = lazy(async () => ({ default: (await import("./pool-charts")).DayOfTemplate }));

export function PoolsChart(props: { first?: number; wall?: boolean }) {
  return (
    <Suspense fallback={<Loading rows={2} />}>
      <Pools {...props} />
    </Suspense>
  );
}

export function TemplateCharts({ name }: { name: string }) {
  return (
    <Suspense fallback={<Loading rows={2} />}>
      <OfTemplate name={name} />
    </Suspense>
  );
}
