// Start a run: the inputs as a form made from their schema, and the same as JSON beside it.
import { type Signal, useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { call, Refused, type Schemas } from "../../api/call.ts";
import { parse, print } from "../../api/exact.ts";
import { useLoad } from "../../api/load.ts";
import { CopyButton, Foreign, Loading } from "../../kit/basics.tsx";
import { Problem } from "../../kit/problem.tsx";
import { SchemaForm } from "../../kit/SchemaForm.tsx";
import { defaultsOf, type Schema } from "../../kit/schema.ts";
import { base, change, go, href, place } from "../../router.ts";
import { lacks, readMe } from "../../shell/me.ts";
import { words as all } from "../../words/en.ts";
import { words } from "../../words/workflows.ts";
import { pathTo } from "./Workflow.tsx";

type Details = Schemas["WorkflowDetails"];

interface Read {
  found: Details;
  aliases: readonly Schemas["Alias"][];
  last: string | undefined;
}

async function read(name: string, which: string, signal: AbortSignal): Promise<Read> {
  const path = { name };
  const version = /^\d+$/.test(which) ? Number(which) : undefined;
  const query = { version, alias: which && version === undefined ? which : undefined };
  const [found, aliases, runs] = await Promise.all([
    call("GET /api/v1/workflows/{name}", { path, query, signal }),
    call("GET /api/v1/workflows/{name}/aliases", { path, query: { limit: 100 }, signal }),
    call("GET /api/v1/runs", { query: { workflow: name, limit: 1 }, signal }),
  ]);
  return { found, aliases: aliases.items, last: runs.items[0]?.run_id };
}

export default function Start({ names }: { names: Readonly<Record<string, string>> }) {
  const name = names.name ?? "";
  const which = place.value.query.get("version") ?? place.value.query.get("alias") ?? "";
  const text = words.starting;
  useEffect(() => {
    document.title = `${text.title(name)} · ${all.product}`;
    void readMe();
  }, [name]);
  const loaded = useLoad(`${name} ${which}`, (signal) => read(name, which, signal));
  const found = loaded.data.value;
  return (
    <section class="screen">
      <div class="crumbs">
        <a href={href("/workflows")}>{words.title}</a>
        <span aria-hidden="true">/</span>
        <a href={href(pathTo(name))}>
          <Foreign text={name} className="id" />
        </a>
      </div>
      <h1>
        <Foreign text={text.title(name)} />
      </h1>
      {found ? (
        <Form key={`${name} ${which} ${found.found.version}`} name={name} which={which} read={found} />
      ) : loaded.error.value === undefined ? (
        <Loading />
      ) : (
        <Problem error={loaded.error.value} onRetry={loaded.reload} />
      )}
    </section>
  );
}

/** Tags from lines of `name=value`, or the line that is none. */
export function readTags(text: string): { tags: Record<string, string> } | { bad: string } {
  const tags: Record<string, string> = {};
  for (const raw of text.split("\n")) {
    const line = raw.trim();
    if (!line) continue;
    const cut = line.indexOf("=");
    if (cut < 1) return { bad: line };
    tags[line.slice(0, cut)] = line.slice(cut + 1);
  }
  return { tags };
}

/** What the server found wrong, by the path in the inputs. */
function problemsOf(error: unknown): ReadonlyMap<string, string> {
  const found = new Map<string, string>();
  if (error instanceof Refused)
    for (const one of error.problem.problems ?? []) {
      const path = one.path.replace(/^inputs\.?/, "").replaceAll(/\[(\d+)\]/g, ".$1");
      found.set(path, one.message);
    }
  return found;
}

function initialText(schema: Schema | undefined): string {
  const given = place.peek().query.get("inputs");
  if (given !== null) return given;
  return print((schema && defaultsOf(schema)) ?? {});
}

interface FormGiven {
  name: string;
  which: string;
  read: Read;
}

function Form({ name, which, read: { found, aliases, last } }: FormGiven) {
  const text = words.starting;
  const schema = found.definition.inputs as Schema | undefined;
  const json = useSignal(initialText(schema));
  const tags = useSignal("");
  const deadline = useSignal("");
  const key = useSignal("");
  const error = useSignal<unknown>(undefined);
  const busy = useSignal(false);
  const known = readInputs(json.value);
  const why = lacks("runs:start");
  const tagged = readTags(tags.value);
  const workflow = which ? `${name}@${which}` : name;
  const body = {
    workflow,
    inputs: "inputs" in known ? known.inputs : {},
    ...("tags" in tagged && Object.keys(tagged.tags).length ? { tags: tagged.tags } : {}),
    ...(Number(deadline.value) > 0 ? { deadline_seconds: Number(deadline.value) } : {}),
  };
  const problem = "bad" in known ? known.bad : "bad" in tagged ? text.badTag(tagged.bad) : undefined;
  const start = async (event: Event) => {
    event.preventDefault();
    busy.value = true;
    try {
      const headers = key.value ? { "Idempotency-Key": key.value } : undefined;
      const started = await call("POST /api/v1/runs", { body: body as never, headers });
      go(href(`/runs/${encodeURIComponent(started.run_id)}`));
    } catch (caught) {
      error.value = caught;
      busy.value = false;
    }
  };
  return (
    <form class="start stack" onSubmit={start}>
      <div class="side-by-side">
        <section class="card">
          <h2>{text.form}</h2>
          {schema && "inputs" in known ? (
            <SchemaForm
              schema={schema}
              value={known.inputs}
              problems={problemsOf(error.value)}
              onChange={(value) => (json.value = print(value))}
            />
          ) : (
            <p class="soft">{schema ? text.bad("") : words.noInputs}</p>
          )}
        </section>
        <section class="card">
          <h2 id="json-title">{text.json}</h2>
          <textarea
            class="code"
            aria-labelledby="json-title"
            aria-invalid={"bad" in known || undefined}
            rows={12}
            spellcheck={false}
            value={json.value}
            onInput={(event) => (json.value = event.currentTarget.value)}
          />
          {last && <LastInputs last={last} json={json} />}
        </section>
      </div>
      <section class="card options">
        <label class="field">
          {text.which}
          <select
            value={which}
            onChange={(event) => {
              const chosen = event.currentTarget.value;
              const numbered = /^\d+$/.test(chosen);
              change({
                version: numbered ? chosen : undefined,
                alias: numbered ? undefined : chosen,
                inputs: json.peek(),
              });
            }}
          >
            <option value="">{words.newest(found.version)}</option>
            {aliases.map((one) => (
              <option key={one.alias} value={one.alias}>
                {one.alias}
              </option>
            ))}
            {which && !aliases.some((one) => one.alias === which) && <option value={which}>{which}</option>}
          </select>
        </label>
        <label class="field">
          {text.tags}
          <textarea
            rows={2}
            placeholder={text.tagsHint}
            value={tags.value}
            onInput={(event) => (tags.value = event.currentTarget.value)}
          />
        </label>
        <label class="field">
          {text.deadline}
          <input
            type="text"
            inputMode="decimal"
            placeholder={text.deadlineHint}
            value={deadline.value}
            onInput={(event) => (deadline.value = event.currentTarget.value)}
          />
        </label>
        <label class="field">
          {text.key}
          <input
            type="text"
            maxLength={200}
            title={text.keyHint}
            value={key.value}
            onInput={(event) => (key.value = event.currentTarget.value)}
          />
        </label>
      </section>
      {problem && (
        <p class="field-problem" role="alert">
          {problem}
        </p>
      )}
      {error.value !== undefined && <Problem error={error.value} />}
      <div class="bar">
        <button
          type="submit"
          class="primary"
          disabled={busy.value || problem !== undefined || why !== undefined}
          title={why}
        >
          {text.start}
        </button>
        <CopyButton text={asCurl(body)} label={text.curl} />
      </div>
    </form>
  );
}

function readInputs(text: string): { inputs: Record<string, unknown> } | { bad: string } {
  try {
    const value: unknown = text.trim() === "" ? {} : parse(text);
    if (value === null || typeof value !== "object" || Array.isArray(value)) return { bad: words.starting.notObject };
    return { inputs: value as Record<string, unknown> };
  } catch (error) {
    return { bad: words.starting.bad(error instanceof Error ? error.message : "") };
  }
}

function LastInputs({ last, json }: { last: string; json: Signal<string> }) {
  const error = useSignal<unknown>(undefined);
  const take = async () => {
    try {
      const run = await call("GET /api/v1/runs/{run_id}", { path: { run_id: last }, query: { outputs: false } });
      json.value = print(run.inputs ?? {});
      error.value = undefined;
    } catch (caught) {
      error.value = caught;
    }
  };
  return (
    <>
      <button type="button" onClick={take}>
        {words.starting.last}
      </button>
      {error.value !== undefined && <Problem error={error.value} onRetry={take} />}
    </>
  );
}

/** A text as one word of a POSIX shell. */
export const quote = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`;

function asCurl(body: unknown): string {
  const address = `${location.origin}${base}/api/v1/runs`;
  return `curl -X POST ${quote(address)} -H 'Content-Type: application/json' -d ${quote(print(body))}`;
}
