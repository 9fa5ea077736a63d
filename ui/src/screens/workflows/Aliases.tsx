// The aliases of a workflow: where each points, its history, and moving it, all at once or a percentage at a time.
import { useSignal } from "@preact/signals";
import { call, Refused, type Schemas } from "../../api/call.ts";
import { useLoad } from "../../api/load.ts";
import { Foreign, Loading, Moment } from "../../kit/basics.tsx";
import { CopyAs } from "../../kit/CopyAs.tsx";
import { Problem } from "../../kit/problem.tsx";
import { shownDuration } from "../../kit/time.ts";
import { lacks } from "../../shell/me.ts";
import { number } from "../../words/en.ts";
import { words } from "../../words/workflows.ts";
import { backDoing, moveDoing, percent } from "./moving.ts";

type Alias = Schemas["Alias"];
type Share = Schemas["AliasShare"];

export function Aliases({ name, newest }: { name: string; newest: number }) {
  const text = words.aliases;
  const turn = useSignal(0);
  const fresh = useSignal(false);
  const loaded = useLoad(`${name} ${turn.value}`, (signal) =>
    call("GET /api/v1/workflows/{name}/aliases", { path: { name }, query: { limit: 500 }, signal }),
  );
  const kept = useSignal<readonly Alias[] | undefined>(undefined);
  if (loaded.data.value) kept.value = loaded.data.value.items;
  const why = lacks("workflows:write");
  const found = kept.value;
  if (loaded.error.value !== undefined && !found) return <Problem error={loaded.error.value} onRetry={loaded.reload} />;
  if (!found) return <Loading rows={4} />;
  const changed = () => {
    fresh.value = false;
    turn.value += 1;
  };
  return (
    <div class="stack">
      {found.length === 0 && <p class="soft">{text.none}</p>}
      {found.map((alias) => (
        <One key={alias.alias} alias={alias} newest={newest} onChange={changed} />
      ))}
      {fresh.value ? (
        <section class="card">
          <h2>{text.fresh}</h2>
          <Move name={name} newest={newest} onDone={changed} />
        </section>
      ) : (
        <p>
          <button type="button" disabled={why !== undefined} title={why} onClick={() => (fresh.value = true)}>
            {text.fresh}
          </button>
        </p>
      )}
    </div>
  );
}

const spell = (shares: readonly Share[]): string =>
  shares.map((one) => words.aliases.share(one.version, percent(one.percent))).join(", ");

function One({ alias, newest, onChange }: { alias: Alias; newest: number; onChange: () => void }) {
  const text = words.aliases;
  const moving = useSignal(false);
  const error = useSignal<unknown>(undefined);
  const path = { name: alias.name, alias: alias.alias };
  const why = lacks("workflows:write");
  const moves = useLoad(`${alias.alias} ${alias.revision}`, (signal) =>
    call("GET /api/v1/workflows/{name}/aliases/{alias}/moves", { path, query: { limit: 20 }, signal }),
  );
  const history = moves.data.value?.items ?? [];
  const rollBack = async () => {
    try {
      await call("POST /api/v1/workflows/{name}/aliases/{alias}/rollback", { path, body: { reason: "" } });
      error.value = undefined;
      onChange();
    } catch (caught) {
      error.value = caught;
    }
  };
  const reason = why ?? (history.length < 2 ? text.backHint : undefined);
  return (
    <section class="card alias" data-alias={alias.alias}>
      <div class="head">
        <h2>
          <Foreign text={alias.alias} /> <span class="soft plain">{text.points(spell(alias.versions))}</span>
        </h2>
        <div class="bar">
          <button
            type="button"
            disabled={why !== undefined}
            title={why}
            aria-expanded={moving.value}
            onClick={() => (moving.value = !moving.value)}
          >
            {text.move}
          </button>
          <button type="button" disabled={reason !== undefined} title={reason} onClick={rollBack}>
            {text.back}
          </button>
        </div>
      </div>
      {error.value !== undefined && <Problem error={error.value} />}
      {moving.value && (
        <Move
          name={alias.name}
          newest={newest}
          alias={alias}
          onDone={() => {
            moving.value = false;
            onChange();
          }}
          onMoved={onChange}
        />
      )}
      <Stats alias={alias} />
      {reason === undefined && <CopyAs title={text.copyBack} doing={backDoing(alias.name, alias.alias)} />}
      <details>
        <summary>{text.history}</summary>
        <ol class="moves">
          {history.map((move) => (
            <li key={move.revision}>
              <span>{spell(move.versions)}</span>{" "}
              <span class="soft">
                <Moment at={move.at} /> <Foreign text={move.by} /> {move.reason && <Foreign text={move.reason} />}
              </span>
            </li>
          ))}
        </ol>
      </details>
    </section>
  );
}

/** How the versions did since the alias was moved. */
function Stats({ alias }: { alias: Alias }) {
  const text = words.stats;
  const loaded = useLoad(`${alias.name} ${alias.at}`, (signal) =>
    call("GET /api/v1/workflows/{name}/stats", {
      path: { name: alias.name },
      query: { since: String(alias.at) },
      signal,
    }),
  );
  const rows = loaded.data.value?.versions;
  if (!rows) return null;
  if (!rows.length) return <p class="soft">{text.none}</p>;
  const shares = new Map(alias.versions.map((one) => [one.version, one.percent]));
  return (
    <table class="plain-table small">
      <caption>{text.since}</caption>
      <thead>
        <tr>
          <th scope="col">{words.version}</th>
          <th scope="col" class="right">
            {text.share}
          </th>
          <th scope="col" class="right">
            {text.started}
          </th>
          <th scope="col" class="right">
            {text.failed}
          </th>
          <th scope="col" class="right">
            {text.p95}
          </th>
        </tr>
      </thead>
      <tbody>
        {rows.map((one) => (
          <tr key={one.version}>
            <td>{number(one.version)}</td>
            <td class="right number">{percent(shares.get(one.version) ?? 0)} %</td>
            <td class="right number">{number(one.started)}</td>
            <td class={one.failed ? "right number bad" : "right number"}>{number(one.failed)}</td>
            <td class="right number">{one.p95_seconds === null ? "" : shownDuration(one.p95_seconds)}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

interface MoveGiven {
  name: string;
  newest: number;
  alias?: Alias;
  onDone: () => void;
  onMoved?: () => void;
}

/** Give one share another size: the others give or take in proportion, so that all are a hundred. */
export function rebalance(shares: readonly Share[], version: number, wanted: number): Share[] {
  const size = Math.max(0, Math.min(100, wanted));
  const rest = shares.filter((one) => one.version !== version);
  const before = rest.reduce((sum, one) => sum + one.percent, 0);
  let left = 100 - size;
  return shares.map((one) => {
    if (one.version === version) return { version, percent: rest.length ? size : 100 };
    const last = rest.at(-1)?.version === one.version;
    const own = last ? left : Math.round(before ? (one.percent / before) * (100 - size) : (100 - size) / rest.length);
    left -= own;
    return { version: one.version, percent: Math.max(0, own) };
  });
}

function Move({ name, newest, alias, onDone, onMoved }: MoveGiven) {
  const text = words.aliases;
  const called = useSignal(alias?.alias ?? "");
  const shares = useSignal<readonly Share[]>(alias?.versions ?? [{ version: newest, percent: 100 }]);
  const reason = useSignal("");
  const error = useSignal<unknown>(undefined);
  const adding = useSignal(newest);
  const sum = shares.value.reduce((total, one) => total + one.percent, 0);
  const raised = shares.value.flatMap((one) => {
    const before = alias?.versions.find((old) => old.version === one.version)?.percent;
    return before !== undefined && before < one.percent ? [{ ...one, before }] : [];
  });
  const save = async (event: Event) => {
    event.preventDefault();
    const used = shares.value.filter((one) => one.percent > 0);
    try {
      await call("PUT /api/v1/workflows/{name}/aliases/{alias}", {
        path: { name, alias: called.value },
        body: { versions: used, reason: reason.value, expected_revision: alias?.revision ?? 0 } as never,
      });
      onDone();
    } catch (caught) {
      error.value = caught;
      if (caught instanceof Refused && caught.problem.status === 409) onMoved?.();
    }
  };
  const conflict = error.value instanceof Refused && error.value.problem.status === 409;
  return (
    <form class="move stack" onSubmit={save}>
      {!alias && (
        <label class="field">
          {text.name}
          <input
            type="text"
            required
            maxLength={64}
            value={called.value}
            onInput={(event) => (called.value = event.currentTarget.value)}
          />
        </label>
      )}
      {shares.value.map((one) => (
        <div key={one.version} class="share">
          <span>{words.versionOf(one.version)}</span>
          <input
            type="range"
            min={0}
            max={100}
            value={one.percent}
            aria-label={text.percent(one.version)}
            onInput={(event) =>
              (shares.value = rebalance(shares.value, one.version, Number(event.currentTarget.value)))
            }
          />
          <span class="number">{percent(one.percent)} %</span>
          <button
            type="button"
            class="quiet"
            disabled={shares.value.length < 2}
            aria-label={text.remove(one.version)}
            onClick={() => {
              const rest = rebalance(shares.value, one.version, 0);
              shares.value = rest.filter((other) => other.version !== one.version);
            }}
          >
            ✕
          </button>
        </div>
      ))}
      <div class="bar">
        <select
          aria-label={words.version}
          value={String(adding.value)}
          onChange={(event) => (adding.value = Number(event.currentTarget.value))}
        >
          {Array.from({ length: Math.min(newest, 200) }, (_, index) => newest - index).map((version) => (
            <option key={version} value={String(version)}>
              {words.versionOf(version)}
            </option>
          ))}
        </select>
        <button
          type="button"
          disabled={shares.value.some((one) => one.version === adding.value)}
          onClick={() => (shares.value = [...shares.value, { version: adding.value, percent: 0 }])}
        >
          {text.add}
        </button>
      </div>
      {raised.map((one) => (
        <p key={one.version} class="soft">
          {text.keeps(text.raise(one.version, percent(one.before), percent(one.percent)))}
        </p>
      ))}
      <label class="field">
        {words.reason}
        <input
          type="text"
          maxLength={2000}
          value={reason.value}
          onInput={(event) => (reason.value = event.currentTarget.value)}
        />
      </label>
      {conflict && (
        <p class="reason" data-group="waits">
          {text.moved}
        </p>
      )}
      {error.value !== undefined && <Problem error={error.value} />}
      <CopyAs
        doing={moveDoing({
          name,
          alias: called.value,
          shares: shares.value,
          reason: reason.value,
          revision: alias?.revision ?? 0,
        })}
      />
      <p>
        <button type="submit" class="primary" disabled={Math.abs(sum - 100) > 0.01}>
          {text.save}
        </button>
      </p>
    </form>
  );
}
