/** All operations, newest first; the finished ones stay readable. */

import { useState } from "react";
import { get } from "../api/client";
import { type FeedEvent, type Operation, type Page, STATUSES } from "../api/types";
import { useResource } from "../live/resource";
import { Filter, Search } from "../parts/filters";
import { Empty, Shown, Trouble } from "../parts/states";
import { Ago, Elapsed, Name, OperationLink, StatusBadge, TemplateLink } from "../parts/words";
import { useAddress } from "../routing/router";
import { capital, ended, plain, where } from "../words/names";
import { took } from "../words/time";

const KINDS = ["provision", "release", "refill", "run", "cluster_create", "cluster_delete"];
const PAGE = 100;
const ofOperations = (event: FeedEvent) => event.entity === "operation";

export function Operations() {
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
        </div>
      </header>
      <Shown read={read} rows={8}>
        {(page) =>
          page.items.length === 0 ? (
            <Empty title={filtered ? "No operation fits these filters" : "No operations yet"}>
              {!filtered && (
                <p>
                  Ask for nodes with <strong>Provision</strong>, or run{" "}
                  <code>muster provision --count 1 --run hello</code>.
                </p>
              )}
            </Empty>
          ) : (
            <>
              <Table operations={page.items} />
              {page.next && <Older key={JSON.stringify(asked) + page.next} cursor={page.next} asked={asked} />}
            </>
          )
        }
      </Shown>
    </>
  );
}

function Table({ operations }: { operations: readonly Operation[] }) {
  return (
    <div className="rows card">
      <table className="plain-table operations-table">
        <thead>
          <tr>
            <th>Status</th>
            <th>Run</th>
            <th className="wide">Template</th>
            <th className="wide">What it does</th>
            <th className="wide">Took</th>
            <th>Began</th>
            <th className="wide">Operation</th>
          </tr>
        </thead>
        <tbody>
          {operations.map((each) => (
            <tr key={each.operation_id} data-testid="operation-row">
              <td>
                <StatusBadge status={each.status} />
              </td>
              <td className="cell-name">
                <span className="faint">{capital(plain(each.kind))}</span> {each.run && <Name>{each.run}</Name>}
                <span className="narrow">
                  <OperationLink id={each.operation_id} />
                </span>
              </td>
              <td className="wide cell-name">{each.template && <TemplateLink name={each.template} />}</td>
              <td className="wide cell-words">
                <bdi>
                  {each.error ? each.error.message : ended(each.status) ? each.message || where(each) : where(each)}
                </bdi>
              </td>
              <td className="wide">
                {each.ended_at ? (
                  <span className="figures">
                    {took((Date.parse(each.ended_at) - Date.parse(each.started_at)) / 1000)}
                  </span>
                ) : (
                  <Elapsed since={each.started_at} />
                )}
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

/** Older pages don't change: they are read once, when asked for. */
function Older({ cursor, asked }: { cursor: string; asked: Record<string, string | number | null> }) {
  const [items, setItems] = useState<Operation[]>([]);
  const [next, setNext] = useState<string | null>(cursor);
  const [wrong, setWrong] = useState<Error | null>(null);
  const more = async () => {
    try {
      const page = await get<Page<Operation>>("/operations", { ...asked, cursor: next });
      setItems([...items, ...page.items]);
      setNext(page.items.length === 0 ? null : (page.next ?? null));
      setWrong(null);
    } catch (error) {
      setWrong(error as Error);
    }
  };
  return (
    <>
      {items.length > 0 && <Table operations={items} />}
      {wrong && <Trouble error={wrong} />}
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
