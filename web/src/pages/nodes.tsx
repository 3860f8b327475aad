/** All nodes. Ten thousand rows are read in the background and kept up to date by events; what is in sight is drawn. */

import { useEffect, useMemo, useState } from "react";
import { HEALTHS, type Node, NODE_STATES } from "../api/types";
import { Fleet, type FleetState, MOST } from "../live/fleet";
import { keptWarm, usePools } from "../live/pools";
import { Chosen, Filter, Search } from "../parts/filters";
import { Icon } from "../parts/icons";
import { Empty, Loading, Trouble } from "../parts/states";
import { SavedFilters } from "../parts/saved";
import { Cell, useNarrow, VirtualTable } from "../parts/virtual";
import { Ago, Badge, Name, NodeDeadline, NodeHealth, NodeLink, StateBadge, TemplateLink } from "../parts/words";
import { Link, setQuery, useAddress } from "../routing/router";
import { type Column, COLUMNS, chosen, sorted } from "./nodes-choosing";

const ROW = 38;
const ROW_NARROW = 64;

const LIVING = NODE_STATES.filter((state) => state !== "terminated");
const GONE = ["terminated"] as const;

/** The terminated ones are many, and asked for alone. */
export function useFleet(terminated: boolean): FleetState & { reload: () => void } {
  const [state, setState] = useState<FleetState>({ nodes: [], whole: false, more: false, error: undefined });
  const [fleet, setFleet] = useState<Fleet | null>(null);
  useEffect(() => {
    const made = new Fleet(terminated ? GONE : LIVING, setState);
    setFleet(made);
    return made.start();
  }, [terminated]);
  return { ...state, reload: () => fleet?.reload() };
}

export function Nodes() {
  const { query } = useAddress();
  const fleet = useFleet(query.get("state") === "terminated");
  const pools = usePools();
  const narrow = useNarrow();
  const asked = query.toString();
  const filters = useMemo(() => new URLSearchParams(asked), [asked]);
  const rows = useMemo(() => sorted(chosen(fleet.nodes, filters), filters), [fleet.nodes, filters]);
  const templates = useMemo(() => [...new Set(fleet.nodes.map((node) => node.template))].sort(), [fleet.nodes]);
  const filtered = ["state", "health", "template", "run", "q"].some((name) => filters.has(name));
  return (
    <div className="nodes">
      <header className="page-head">
        <h1>
          Nodes{" "}
          <span className="faint figures" data-testid="node-count" data-shown={rows.length} data-whole={fleet.whole}>
            {filtered
              ? `${rows.length.toLocaleString("en")} of ${fleet.nodes.length.toLocaleString("en")}`
              : rows.length.toLocaleString("en")}
            {!fleet.whole && " …"}
          </span>
        </h1>
        <div className="filters" role="search">
          <Filter name="state" label="State" options={NODE_STATES} />
          <Filter name="health" label="Health" options={HEALTHS} />
          <Filter name="template" label="Template" options={templates} />
          <Chosen name="run" label="Run" />
          <Search name="q" label="Search nodes" placeholder="node, run, machine" />
          <SavedFilters />
        </div>
      </header>
      {fleet.error && <Trouble error={fleet.error} retry={fleet.reload} />}
      {fleet.more && fleet.whole && (
        <p className="faint">
          The table holds the first {MOST.toLocaleString("en")} nodes; there are more. Use the command line to see them
          all.
        </p>
      )}
      {!fleet.whole && fleet.nodes.length === 0 && !fleet.error ? (
        <Loading rows={10} />
      ) : rows.length === 0 ? (
        <Empty title={filtered ? "No node fits these filters" : "There are no nodes"}>
          {!filtered && <p>A run that asks for nodes makes them, and a template with min_idle keeps some warm.</p>}
        </Empty>
      ) : (
        <VirtualTable
          rows={rows}
          height={narrow ? ROW_NARROW : ROW}
          label="Nodes"
          columns={COLUMNS.length}
          className="card nodes-table"
          rowTestId="node-row"
          keyOf={(node) => node.id}
          head={COLUMNS.map((column) => (
            <Head key={column.key} column={column} query={filters} />
          ))}
        >
          {(node) => <Row node={node} kept={keptWarm(node, pools)} />}
        </VirtualTable>
      )}
    </div>
  );
}

function Head({ column, query }: { column: Column; query: URLSearchParams }) {
  const by = query.get("sort") ?? "";
  const here = by.replace(/^-/, "") === column.key;
  const descending = here && by.startsWith("-");
  const next = !here ? column.key : descending ? null : `-${column.key}`;
  return (
    <div
      role="columnheader"
      className={`cell cell-${column.key}`}
      style={{ gridArea: column.key }}
      aria-sort={here ? (descending ? "descending" : "ascending") : "none"}
    >
      <button type="button" onClick={() => setQuery({ sort: next })}>
        {column.name}
        {here && <Icon name={descending ? "down" : "up"} />}
      </button>
    </div>
  );
}

function Row({ node, kept }: { node: Node; kept: boolean }) {
  return (
    <>
      <Cell name="id">
        <NodeLink id={node.id} full />
      </Cell>
      <Cell name="state">
        <StateBadge state={node.state} />
        {node.drain && <Badge tone="warning">drain</Badge>}
      </Cell>
      <Cell name="health">
        <NodeHealth node={node} />
      </Cell>
      <Cell name="template">
        <TemplateLink name={node.template} revision={node.revision} />
      </Cell>
      <Cell name="run">
        {node.run ? (
          <Link href={`/nodes?run=${encodeURIComponent(node.run)}`} title={`All nodes of ${node.run}`}>
            <Name>{node.run}</Name>
          </Link>
        ) : (
          <span className="faint">–</span>
        )}
      </Cell>
      <Cell name="deadline">
        <NodeDeadline node={node} kept={kept} />
      </Cell>
      <Cell name="age">
        <Ago at={node.created_at} />
      </Cell>
    </>
  );
}
