/** Messages of webhooks that no receiver took: since when, why, what comes next; sent again or forgotten from here. */

import { useState } from "react";
import { post } from "../api/client";
import type { Backlog, FeedEvent, Page, Undelivered } from "../api/types";
import { useResource } from "../live/resource";
import { useNow } from "../live/ticking";
import { Act } from "../parts/act";
import { Card } from "../parts/facts";
import { Shown } from "../parts/states";
import { Ago, Badge, Countdown, Elapsed, Name } from "../parts/words";
import { capital, counted } from "../words/names";
import { seconds } from "../words/time";
import { linkOf } from "./overview-blocks";

const EVERY = 10_000; // a try that fails again makes no event
const FIRST = 10;
const MOST = 500; // as many as the API gives at once

/** Most of the time there is none: then the overview has no such block. */
export function UndeliveredCard({ backlogs, refresh }: { backlogs: readonly Backlog[]; refresh: () => void }) {
  if (backlogs.length === 0) return null;
  return (
    <Card title="Undelivered messages" id="undelivered">
      <ul className="lines">
        {backlogs.map((each) => (
          <BacklogLine key={each.webhook} backlog={each} alone={backlogs.length === 1} refresh={refresh} />
        ))}
      </ul>
    </Card>
  );
}

interface BacklogProps {
  backlog: Backlog;
  /** Then its messages need no click. */
  alone: boolean;
  refresh: () => void;
}

function BacklogLine({ backlog, alone, refresh }: BacklogProps) {
  const [open, setOpen] = useState(alone);
  const { webhook, waiting, given_up, removed } = backlog;
  const forgets = removed || given_up > 0;
  return (
    <li data-testid="backlog" data-webhook={webhook}>
      <div className="line-words">
        <span className="line-links">
          <strong>
            <Name>{webhook}</Name>
          </strong>
          {waiting > 0 && <Badge tone="warning">{waiting} waiting</Badge>}
          {given_up > 0 && <Badge tone="danger">{given_up} given up</Badge>}
          {removed && <Badge tone="neutral">not in the settings any more</Badge>}
        </span>
        {backlog.problem && (
          <span className="faint">
            <bdi>{capital(backlog.problem)}</bdi>
          </span>
        )}
        <span className="line-acts">
          {!removed && (
            <ResendButton webhook={webhook} done={refresh}>
              Resend all
            </ResendButton>
          )}
          {forgets && (
            <ForgetButton webhook={webhook} what={removed ? waiting + given_up : given_up} done={refresh}>
              {removed ? "Forget all" : "Forget given up"}
            </ForgetButton>
          )}
        </span>
      </div>
      <span className="line-side">
        {backlog.oldest_since ? (
          <>
            oldest <Elapsed since={backlog.oldest_since} />
          </>
        ) : (
          <Ago at={backlog.given_up_at} />
        )}
      </span>
      <details className="messages" open={open} onToggle={(event) => setOpen(event.currentTarget.open)}>
        <summary>{counted(waiting + given_up, "message")}</summary>
        {open && <Messages backlog={backlog} refresh={refresh} />}
      </details>
    </li>
  );
}

function Messages({ backlog, refresh }: { backlog: Backlog; refresh: () => void }) {
  const { webhook, removed } = backlog;
  const [all, setAll] = useState(false);
  const read = useResource<Page<Undelivered>>("/webhooks/undelivered", {
    query: { webhook, limit: all ? MOST : FIRST },
    on: (event: FeedEvent) => event.entity_id === `webhook ${webhook}`,
    every: EVERY,
  });
  const done = () => {
    read.refresh();
    refresh();
  };
  return (
    <Shown read={read}>
      {({ items, next }) => (
        <>
          <ul className="lines">
            {items.map((each) => (
              <MessageLine key={each.id} message={each} removed={removed ?? false} done={done} />
            ))}
          </ul>
          {items.length === 0 && <p className="calm">Everything was delivered or forgotten meanwhile.</p>}
          {next && !all && (
            <button type="button" className="button button-quiet" onClick={() => setAll(true)}>
              Show more
            </button>
          )}
          {next && all && (
            <p className="more">
              These are the first {items.length}; all: <code>muster webhooks undelivered {webhook}</code>
            </p>
          )}
        </>
      )}
    </Shown>
  );
}

function MessageLine({ message, removed, done }: { message: Undelivered; removed: boolean; done: () => void }) {
  const { event, webhook, id } = message;
  const givenUp = message.state === "given_up";
  return (
    <li data-testid="message" data-state={message.state}>
      <div className="line-words">
        <span>
          <span className="mono">{message.type}</span> {linkOf(event) ?? <bdi className="name">{event.entity_id}</bdi>}
        </span>
        <span className="faint">
          <bdi>{capital(message.problem)}</bdi>
        </span>
        <span className="faint">
          wanted <Ago at={message.since} /> · <Tries message={message} />
        </span>
        <span className="line-acts">
          {!removed && (
            <ResendButton webhook={webhook} id={id} done={done}>
              Resend
            </ResendButton>
          )}
          {givenUp && (
            <ForgetButton webhook={webhook} id={id} what={1} done={done}>
              Forget
            </ForgetButton>
          )}
        </span>
      </div>
    </li>
  );
}

/** How often it was tried, and what comes next. */
function Tries({ message }: { message: Undelivered }) {
  const left = -(seconds(message.due_at, useNow()) ?? 0);
  const { tries } = message;
  return (
    <>
      {tries === 0 ? (
        "not tried yet"
      ) : (
        <>
          tried {counted(tries, "time")}, last <Ago at={message.tried_at} />
        </>
      )}
      {message.state === "given_up" ? (
        <>
          {" · given up "}
          <Ago at={message.given_up_at} />
        </>
      ) : message.due_at && left > 0 ? (
        <>
          {" · "}
          <Countdown until={message.due_at} ahead="next try in " />
        </>
      ) : (
        tries > 0 && " · due now"
      )}
    </>
  );
}

interface ActProps {
  webhook: string;
  /** Without it: all of the webhook. */
  id?: string;
  children: string;
  done: () => void;
}

const chosen = (webhook: string, id: string | undefined) => ({ webhook, ...(id && { ids: [id] }) });

function ResendButton({ webhook, id, children, done }: ActProps) {
  return (
    <Act needs="operator" act={() => post("/webhooks/resend", chosen(webhook, id))} done={done}>
      {children}
      <span className="unseen"> {id ?? webhook}</span>
    </Act>
  );
}

function ForgetButton({ webhook, id, what, children, done }: ActProps & { what: number }) {
  const words = {
    title: `Forget ${counted(what, "message")} of ${webhook}?`,
    text: "Its receiver never gets it. This can't be undone.",
    yes: "Forget",
  };
  return (
    <Act
      needs="operator"
      kind="danger"
      act={() => post("/webhooks/forget", chosen(webhook, id))}
      confirm={words}
      done={done}
    >
      {children}
      <span className="unseen"> {id ?? webhook}</span>
    </Act>
  );
}
