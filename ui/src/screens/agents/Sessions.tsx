// Sessions of agents: what runs with the same key know of each other, and how one is forgotten.
import { useSignal } from "@preact/signals";
import { call, type Schemas } from "../../api/call.ts";
import { useLoad } from "../../api/load.ts";
import { Empty, Foreign, Loading, Moment } from "../../kit/basics.tsx";
import { CopyAs } from "../../kit/CopyAs.tsx";
import { Problem } from "../../kit/problem.tsx";
import { Sheet } from "../../kit/Sheet.tsx";
import { change, href, place } from "../../router.ts";
import { lacks } from "../../shell/me.ts";
import { agents } from "../../words/agents.ts";
import { number } from "../../words/en.ts";

type Session = Schemas["AgentSession"];

const PAGE = 100;

/** Keys hold any character, also those that mean something in a path. */
const toSession = ({ workflow, node, key }: Session): string =>
  href("/agents", { tab: "sessions", workflow, node, session: key });

export function Sessions() {
  const text = agents.sessions;
  const key = place.value.query.get("key") ?? "";
  const found = useLoad(key, (signal) =>
    call("GET /api/v1/agent-sessions", { query: { key: key || undefined, limit: PAGE }, signal }),
  );
  const page = found.data.value;
  return (
    <>
      <div class="bar" role="search">
        <label class="pick">
          <span>{text.key}</span>
          <input
            type="search"
            placeholder={text.keyHint}
            maxLength={200}
            value={key}
            onChange={(event) => change({ key: event.currentTarget.value.trim() })}
          />
        </label>
      </div>
      {!page ? (
        found.error.value === undefined ? (
          <Loading rows={4} onStop={found.stop} />
        ) : (
          <Problem error={found.error.value} onRetry={found.reload} />
        )
      ) : page.items.length > 0 ? (
        <Table key={key} page={page} wanted={key} />
      ) : key ? (
        <Empty title={text.none.filtered} />
      ) : (
        <Empty title={text.none.title}>
          <p>{text.none.text}</p>
        </Empty>
      )}
    </>
  );
}

function Table({ page, wanted }: { page: Schemas["AgentSessionPage"]; wanted: string }) {
  const text = agents.sessions;
  const { columns } = text;
  const more = useSignal<readonly Session[]>([]);
  const cursor = useSignal<string | null | undefined>(undefined);
  const next = cursor.value === undefined ? page.next_cursor : cursor.value;
  const readMore = async () => {
    const query = { key: wanted || undefined, limit: PAGE, cursor: next ?? undefined };
    const found = await call("GET /api/v1/agent-sessions", { query });
    more.value = [...more.value, ...found.items];
    cursor.value = found.next_cursor;
  };
  return (
    <>
      <div class="scroller" role="group" aria-label={agents.parts.sessions} tabIndex={0}>
        <table class="ops-table">
          <caption class="hidden">{agents.parts.sessions}</caption>
          <thead>
            <tr>
              <th scope="col">{columns.key}</th>
              <th scope="col">{columns.agent}</th>
              <th scope="col" class="end">
                {columns.turns}
              </th>
              <th scope="col">{columns.first}</th>
              <th scope="col">{columns.last}</th>
              <th scope="col">{columns.owner}</th>
            </tr>
          </thead>
          <tbody>
            {[...page.items, ...more.value].map((one) => (
              <tr key={`${one.workflow} ${one.node} ${one.key}`}>
                <td>
                  <a href={toSession(one)}>
                    <Foreign text={one.key} />
                  </a>
                </td>
                <td>
                  <Foreign text={one.workflow} />
                  <div class="soft small">
                    <Foreign text={one.node} />
                  </div>
                </td>
                <td class="number end">{number(one.turns)}</td>
                <td>
                  <Moment at={one.first_at} />
                </td>
                <td>
                  <Moment at={one.last_at} />
                </td>
                <td>{one.owner === null ? <span class="soft">{text.shared}</span> : <Foreign text={one.owner} />}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {next && (
        <p>
          <button type="button" onClick={() => void readMore().catch(() => {})}>
            {text.more}
          </button>
        </p>
      )}
    </>
  );
}

interface Named {
  readonly workflow: string;
  readonly node: string;
  readonly sessionKey: string;
}

export function OneSession({ workflow, node, sessionKey: key }: Named) {
  const text = agents.sessions;
  const path = { workflow, node, key };
  const forgetting = useSignal(false);
  const found = useLoad(`${workflow} ${node} ${key}`, (signal) =>
    call("GET /api/v1/agent-sessions/{workflow}/{node}/{key}", { path, signal }),
  );
  const off = lacks("runs:operate");
  const session = found.data.value;
  return (
    <section class="screen">
      <div class="crumbs">
        <a href={href("/agents", { tab: "sessions" })}>{agents.parts.sessions}</a>
        <span aria-hidden="true">/</span>
        <Foreign text={`${workflow} · ${node}`} />
      </div>
      <header class="head">
        <h1>
          <Foreign text={text.one(key)} />
        </h1>
        {session && (
          <button
            type="button"
            class="danger"
            aria-disabled={off !== undefined}
            title={off}
            onClick={() => (forgetting.value = off === undefined)}
          >
            {text.forget}
          </button>
        )}
      </header>
      {!session ? (
        found.error.value === undefined ? (
          <Loading rows={4} onStop={found.stop} />
        ) : (
          <Problem error={found.error.value} onRetry={found.reload} />
        )
      ) : (
        <Held session={session} />
      )}
      {forgetting.value && <Forget of={path} onClose={() => (forgetting.value = false)} />}
    </section>
  );
}

function Held({ session }: { session: Schemas["AgentSessionDetails"] }) {
  const text = agents.sessions;
  return (
    <>
      <section class="card">
        <h2>{text.turnsTitle}</h2>
        {session.turns.length === 0 && <p class="soft">{text.noTurns}</p>}
        <ol class="transcript">
          {session.turns.map((one) => (
            <li key={`${one.run_id} ${one.at}`} class="answer">
              <h3>
                <Moment at={one.at} />{" "}
                <span class="soft">
                  <Foreign text={one.owner} /> · <Foreign text={text.counts(one.label)} />
                </span>
              </h3>
              {one.summary && <Said title={text.before} said={one.summary} />}
              <Said title={text.asked} said={one.asked} />
              <Said title={text.said} said={one.said} />
              <a class="small" href={href(`/runs/${encodeURIComponent(one.run_id)}`, { node: session.node })}>
                {text.run}
              </a>
            </li>
          ))}
        </ol>
      </section>
      {session.notes.length > 0 && (
        <section class="card">
          <h2>{text.notesTitle}</h2>
          <ol class="transcript">
            {session.notes.map((one) => (
              <li key={`${one.run_id} ${one.at} ${one.key}`}>
                <h3>
                  <Foreign text={one.key} className="id" />{" "}
                  <span class="soft">
                    <Moment at={one.at} /> · <Foreign text={text.counts(one.label)} />
                  </span>
                </h3>
                <p class="spoken">
                  <Foreign text={one.text} />
                </p>
              </li>
            ))}
          </ol>
        </section>
      )}
    </>
  );
}

function Said({ title, said }: { title: string; said: string }) {
  return (
    <>
      <p class="soft small">{title}</p>
      <p class="spoken">
        <Foreign text={said} />
      </p>
    </>
  );
}

function Forget({ of, onClose }: { of: Readonly<Record<"workflow" | "node" | "key", string>>; onClose: () => void }) {
  const text = agents.sessions;
  const done = useSignal(false);
  const { workflow, node, key } = of;
  const act = async () => {
    await call("DELETE /api/v1/agent-sessions/{workflow}/{node}/{key}", { path: of });
    done.value = true;
  };
  const parts = [workflow, node, key].map(encodeURIComponent);
  return (
    <Sheet
      title={text.forgetTitle(key)}
      verb={text.forget}
      harmful
      onClose={onClose}
      onDo={act}
      whyNot={lacks("runs:operate")}
      done={
        done.value ? (
          <p role="status">
            {text.forgotten} <a href={href("/agents", { tab: "sessions" })}>{agents.parts.sessions}</a>
          </p>
        ) : undefined
      }
    >
      <p>{text.forgetDoes}</p>
      {!done.value && (
        <CopyAs
          doing={{
            command: ["sessions", "delete", workflow, node, key],
            method: "DELETE",
            path: `/api/v1/agent-sessions/${parts.join("/")}`,
            python: ["agent_sessions.delete", [workflow, node, key], {}],
          }}
        />
      )}
    </Sheet>
  );
}
