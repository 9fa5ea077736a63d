// A value that is too large to be sent with the page, looked through one level at a time.
import { useSignal } from "@preact/signals";
import { useEffect, useMemo } from "preact/hooks";
import { addressOf, call, type Schemas } from "../../api/call.ts";
import { useLoad } from "../../api/load.ts";
import { Given } from "../../kit/Asset.tsx";
import { CopyButton, Foreign, Loading } from "../../kit/basics.tsx";
import { Json } from "../../kit/Json.tsx";
import { Problem } from "../../kit/problem.tsx";
import { words as general } from "../../words/en.ts";
import { node as words } from "../../words/node.ts";

type Slice = Schemas["Slice"];

/** Where the value is: the output of a node, or the inputs or outputs of the run. */
export interface Whereabouts {
  readonly runId: string;
  readonly node?: string;
  readonly of: "output" | "inputs" | "outputs";
  readonly at?: number | undefined;
  /** Of a node in a loop: which of its visits; without it, the newest. */
  readonly visit?: number;
  /** Of a map: which of its items; without it, all of them. */
  readonly item?: number;
}

const STEP = 100;

function read(where: Whereabouts, pointer: string, offset: number, signal: AbortSignal): Promise<Slice> {
  const run_id = where.runId;
  const query = { pointer, offset, limit: STEP };
  if (where.of === "inputs") return call("GET /api/v1/runs/{run_id}/inputs", { path: { run_id }, query, signal });
  if (where.of === "outputs") return call("GET /api/v1/runs/{run_id}/outputs", { path: { run_id }, query, signal });
  const path = { run_id, node: where.node ?? "" };
  const about = { ...query, at: where.at, visit: where.visit, item: where.item };
  return call("GET /api/v1/runs/{run_id}/nodes/{node}/output", { path, query: about, signal });
}

/** The reference of a value that is stored by itself, if it is one. */
export function storedRef(value: unknown): { readonly ref: string; readonly preview: string } | undefined {
  if (value === null || typeof value !== "object" || Array.isArray(value)) return undefined;
  const { $ref: ref, preview } = value as Readonly<Record<string, unknown>>;
  if (typeof ref !== "string" || !ref.startsWith("cas://")) return undefined;
  return { ref, preview: typeof preview === "string" ? preview : "" };
}

/** Values up to this size are shown as a whole; larger ones are looked through. */
const WHOLE_BYTES = 65_536;

interface Held {
  readonly where: Whereabouts & { readonly node: string };
  /** How many bytes it has; undefined: there is none. */
  readonly size: number | undefined;
  /** Changes with what the node gave. */
  readonly turn: string;
}

/** What a node gave: read by itself, and never whole where it is large. */
export function Output({ where, size, turn }: Held) {
  if (size === undefined) return <p class="soft">{general.run.drawer.noOutput}</p>;
  return size <= WHOLE_BYTES ? <Whole where={where} turn={turn} /> : <Large where={where} size={size} />;
}

/** What a visit gave that is not the newest. */
export function OfVisit({ where, visit }: { where: Held["where"]; visit: Schemas["Node"] }) {
  if (visit.size === undefined) return <p class="soft">{general.run.drawer.noOutput}</p>;
  return <Part where={{ ...where, visit: visit.visit }} />;
}

function Whole({ where, turn }: { where: Held["where"]; turn: string }) {
  const found = useLoad(`${where.runId} ${where.node} ${where.at} ${turn}`, (signal) =>
    call("GET /api/v1/runs/{run_id}/nodes/{node}", {
      path: { run_id: where.runId, node: where.node },
      query: { at: where.at },
      signal,
    }),
  );
  if (found.error.value !== undefined) return <Problem error={found.error.value} onRetry={found.reload} />;
  return found.data.value ? <Stored value={found.data.value.output} where={where} /> : <Loading rows={2} />;
}

function Large({ where, size }: { where: Held["where"]; size: number }) {
  const open = useSignal(false);
  return (
    <div class="stored">
      <p class="soft">{words.parts.large(size)}</p>
      {open.value && <Part where={where} />}
      <p class="stored-ways">
        <button type="button" aria-expanded={open.value} onClick={() => (open.value = !open.value)}>
          {open.value ? words.parts.close : words.parts.open}
        </button>
        <a
          class="button"
          href={addressOf("GET /api/v1/runs/{run_id}/nodes/{node}", {
            path: { run_id: where.runId, node: where.node },
            query: { at: where.at },
          })}
          download={`${where.node.replaceAll(/[^A-Za-z0-9._-]/g, "_")}.json`}
        >
          {words.parts.download}
        </a>
      </p>
    </div>
  );
}

/** The value as it came, or the beginning of one that is stored, with the ways into it. */
export function Stored({ value, where }: { value: unknown; where: Whereabouts }) {
  const open = useSignal(false);
  const stored = storedRef(value);
  const { runId, node, of } = where;
  const giver = useMemo(() => (of === "output" && node ? { runId, node } : undefined), [runId, node, of]);
  if (!stored)
    return (
      <Given.Provider value={giver}>
        <Json value={value} copy name={of === "outputs" ? undefined : (node ?? of)} />
      </Given.Provider>
    );
  return (
    <div class="stored">
      {stored.preview && !open.value && (
        <pre class="preview">
          <Foreign text={stored.preview} />
        </pre>
      )}
      {open.value && <Part where={where} />}
      <p class="stored-ways">
        <button type="button" aria-expanded={open.value} onClick={() => (open.value = !open.value)}>
          {open.value ? words.parts.close : words.parts.open}
        </button>
        <a
          class="button"
          href={addressOf("GET /api/v1/blobs/{hash}", { path: { hash: stored.ref.slice("cas://".length) } })}
          download={`${stored.ref.slice("cas://".length).replaceAll(/[^A-Za-z0-9._-]/g, "_")}.json`}
        >
          {words.parts.download}
        </a>
      </p>
    </div>
  );
}

export function Part({ where }: { where: Whereabouts }) {
  const keys = useSignal<readonly (string | number)[]>([]);
  const offset = useSignal(0);
  const slices = useSignal<readonly Slice[]>([]);
  const error = useSignal<unknown>(undefined);
  const turn = useSignal(0);
  const pointer = keys.value.map((key) => `/${String(key).replaceAll("~", "~0").replaceAll("/", "~1")}`).join("");
  useEffect(() => {
    const aborter = new AbortController();
    error.value = undefined;
    read(where, pointer, offset.value, aborter.signal).then(
      (found) => {
        slices.value = offset.peek() === 0 ? [found] : [...slices.peek(), found];
      },
      (caught: unknown) => {
        if (!aborter.signal.aborted) error.value = caught;
      },
    );
    return () => aborter.abort();
  }, [pointer, offset.value, turn.value]);
  const enter = (next: readonly (string | number)[]) => {
    slices.value = [];
    offset.value = 0;
    keys.value = next;
  };
  const first = slices.value[0];
  const last = slices.value.at(-1);
  return (
    <div class="parts" role="group" aria-label={words.parts.label}>
      <p class="parts-path">
        <button type="button" class="quiet" onClick={() => enter([])}>
          {words.parts.whole}
        </button>
        {keys.value.map((key, index) => (
          <button key={index} type="button" class="quiet" onClick={() => enter(keys.value.slice(0, index + 1))}>
            <Foreign text={String(key)} />
          </button>
        ))}
        {first && <span class="soft">{words.parts.length(first.kind, first.length)}</span>}
        <CopyButton text={pointer || "/"} />
      </p>
      {error.value !== undefined ? (
        <Problem error={error.value} onRetry={() => (turn.value += 1)} />
      ) : !first ? (
        <Loading rows={3} />
      ) : (
        <Content slices={slices.value} onEnter={(key) => enter([...keys.value, key])} />
      )}
      {last?.more && error.value === undefined && (
        <button
          type="button"
          onClick={() => {
            offset.value = slices.value.reduce((sum, one) => sum + (one.entries?.length ?? one.text?.length ?? 0), 0);
          }}
        >
          {words.parts.more}
        </button>
      )}
    </div>
  );
}

function Content({ slices, onEnter }: { slices: readonly Slice[]; onEnter: (key: string | number) => void }) {
  const [first] = slices;
  if (first?.text !== undefined) {
    return (
      <pre class="preview">
        <Foreign text={slices.map((one) => one.text ?? "").join("")} />
      </pre>
    );
  }
  if (!first?.entries) return <Json value={first?.value} />;
  return (
    <ul>
      {slices.flatMap((slice) =>
        (slice.entries ?? []).map((entry) => (
          <li key={entry.key}>
            {"value" in entry && entry.value !== undefined ? (
              <>
                <Foreign text={String(entry.key)} className="j-key" />
                <Json value={entry.value} />
              </>
            ) : (
              <button type="button" class="quiet" onClick={() => onEnter(entry.key)}>
                <Foreign text={String(entry.key)} className="j-key" />{" "}
                <span class="soft">
                  {words.parts.kinds[entry.kind] ?? entry.kind}
                  {entry.size !== undefined && `, ${words.parts.bytes(entry.size)}`}
                </span>
              </button>
            )}
          </li>
        )),
      )}
    </ul>
  );
}
