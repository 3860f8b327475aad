/** All operations, newest first; the finished ones stay readable. */

import { useState } from "react";
import { get } from "../api/client";
import { type FeedEvent, type Operation, type Page, STATUSES } from "../api/types";
import { useResource } from "../live/resource";
import { useMay } from "../parts/act";
import { Filter, Search } from "../parts/filters";
import { SavedFilters } from "../parts/saved";
import { Empty, Shown, Trouble } from "../parts/states";
import { Ago, Lasted, Name, OperationLink, StatusBadge, TemplateLink } from "../parts/words";
import { Link, to, useAddress } from "../routing/router";
import { capital, ended, plain, where } from "../words/names";

const KINDS = ["provision", "release", "refill", "run", "cluster_create", "cluster_delete"];
const PAGE = 100;
const ofOperations = (event: FeedEvent) => event.entity === "operation";

export function Operations() {
  const operator = useMay("operator");
  const { query } = useAddress();
  const asked = { kind: query.get("kind"), status: query.get("status"), run: query.get("run"), limit: PAGE };
  const read = useResource<Page<Operation>>("/operations", { query: asked, on: ofOperations, gap: 1000 });
  const filtered = Boolean(asked.kind || asked.status || asked.run);
  return (
    <>
      <header className="page-head">
        <h1>Operations</h1>
        <div className="filters" role="search">
          <Filter name="kind" label="Kind" options={KINDS} />
          <Filter name="status" label="Status" options={STATUSES} />
          <Search name="run" label="Run" placeholder="exact run id" />
          <SavedFilters />
        </div>
      </header>
      <Shown read={read} rows={8}>
        {(page) =>
          page.items.length === 0 ? (
            <Empty title={filtered ? "No operation fits these filters" : "No operations yet"}>
              {!filtered && (
                <p>
                  Provisions, releases, refills and runs are listed here.
                  {operator && (
                    <>
                      {" "}
                      Ask for nodes with <strong>Provision</strong>, or run{" "}
                      <code>muster provision --count 1 --run hello</code>.
                    </>
                  )}
                </p>
              )}
            </Empty>
          ) : (
            <>
              <Table operations={page.items} />
              <Older key={JSON.stringify(asked)} newest={page} asked={asked} />
            </>
          )
        }
      </Shown>
    </>
  );
}

function said(operation: Operation): string {
  if (operation.error) return operation.error.message;
  if (ended(operation.status) || operation.status === "queued") return operation.message || where(operation);
  return [where(operation), operation.message].filter(Boolean).join(" · ");
}

function Table({ operations }: { operations: readonly Operation[] }) {
  return (
    <div className="rows card">
      <table className="plain-table operations-table">
        <thead>
          <tr>
            <th>Status</th>
            <th>Operation</th>
            <th className="wide">Template</th>
            <th className="wide">Progress</th>
            <th className="wide">Took</th>
            <th>Began</th>
            <th className="wide">Id</th>
          </tr>
        </thead>
        <tbody>
          {operations.map((each) => (
            <tr key={each.operation_id} data-testid="operation-row">
              <td>
                <StatusBadge status={each.status} />
              </td>
              <td className="cell-name">
                <Link href={to("operations", each.operation_id)}>
                  {capital(plain(each.kind))} {each.run && <Name>{each.run}</Name>}
                </Link>
              </td>
              <td className="wide cell-name">{each.template && <TemplateLink name={each.template} />}</td>
              <td className="wide cell-words">
                <bdi title={said(each)}>{said(each)}</bdi>
              </td>
              <td className="wide">
                <Lasted since={each.started_at} until={each.ended_at} />
              </td>
              <td>
                <Ago at={each.started_at} />
              </td>
              <td className="wide">
                <OperationLink id={each.operation_id} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** Older pages are read once, when asked for. What moves out of the newest page meanwhile is kept in between. */
function Older({ newest, asked }: { newest: Page<Operation>; asked: Record<string, string | number | null> }) {
  const [items, setItems] = useState<readonly Operation[]>([]);
  const [read, setRead] = useState<{ next: string | null } | null>(null);
  const [wrong, setWrong] = useState<Error | null>(null);
  const [before, setBefore] = useState(newest);
  if (before !== newest) {
    setBefore(newest);
    const oldest = newest.items.at(-1)?.started_at ?? "";
    const left = before.items.filter((each) => Date.parse(each.started_at) < Date.parse(oldest));
    if (read !== null) setItems(once([...left, ...items]));
  }
  const shown = new Set(newest.items.map((each) => each.operation_id));
  const older = items.filter((each) => !shown.has(each.operation_id));
  const next = read === null ? (newest.next ?? null) : read.next;
  const more = async () => {
    try {
      const page = await get<Page<Operation>>("/operations", { ...asked, cursor: next });
      setItems((had) => once([...had, ...page.items]));
      setRead({ next: page.items.length === 0 ? null : (page.next ?? null) });
      setWrong(null);
    } catch (error) {
      setWrong(error as Error);
    }
  };
  return (
    <>
      {older.length > 0 && <Table operations={older} />}
      {wrong && <Trouble error={wrong} retry={() => void more()} />}
      {next && (
        <p className="more">
          <button type="button" className="button" onClick={() => void more()}>
            Show older ones
          </button>
        </p>
      )}
    </>
  );
}

/** The first word about each is the newest. */
function once(operations: readonly Operation[]): readonly Operation[] {
  const found = new Map<string, Operation>();
  for (const each of operations) if (!found.has(each.operation_id)) found.set(each.operation_id, each);
  return [...found.values()];
}
