// The registry: what agents may find besides the tools that they are given, and who lets them.
import { useSignal } from "@preact/signals";
import { call, type Schemas } from "../../api/call.ts";
import { useLoad } from "../../api/load.ts";
import { Empty, Foreign, Loading } from "../../kit/basics.tsx";
import { CopyAs } from "../../kit/CopyAs.tsx";
import { Json } from "../../kit/Json.tsx";
import { Problem } from "../../kit/problem.tsx";
import { SchemaKeys } from "../../kit/SchemaKeys.tsx";
import { Sheet } from "../../kit/Sheet.tsx";
import { change, href, place } from "../../router.ts";
import { lacks } from "../../shell/me.ts";
import { agents } from "../../words/agents.ts";
import { toolDoing, type Verb, verbsOf } from "./tools.ts";

type Tool = Schemas["RegistryTool"];
type State = Tool["state"];

const GROUPS: Readonly<Record<State, string>> = { live: "good", candidate: "waits", retired: "stopped" };

interface Wished {
  readonly tool: Tool;
  readonly verb: Verb;
}

export function Tools() {
  const text = agents.tools;
  const { query } = place.value;
  const q = query.get("q") ?? "";
  const state = query.get("state") ?? "";
  const found = useLoad(`${state} ${q}`, (signal) =>
    call("GET /api/v1/tools", {
      query: { q: q || undefined, state: (state || undefined) as State | undefined },
      signal,
    }),
  );
  const items = found.data.value?.items;
  const wished = useSignal<Wished | undefined>(undefined);
  return (
    <>
      <div class="bar" role="search">
        <label class="grow">
          <span class="hidden">{text.search}</span>
          <input
            type="search"
            placeholder={text.searchHint}
            maxLength={200}
            value={q}
            onChange={(event) => change({ q: event.currentTarget.value.trim() })}
          />
        </label>
        <select
          aria-label={text.state}
          value={state}
          onChange={(event) => change({ state: event.currentTarget.value })}
        >
          <option value="">{text.anyState}</option>
          {Object.entries(text.states).map(([one, said]) => (
            <option key={one} value={one}>
              {said}
            </option>
          ))}
        </select>
      </div>
      {!items ? (
        found.error.value === undefined ? (
          <Loading rows={4} onStop={found.stop} />
        ) : (
          <Problem error={found.error.value} onRetry={found.reload} />
        )
      ) : items.length > 0 ? (
        <Table items={items} onWish={(tool, verb) => (wished.value = { tool, verb })} />
      ) : q || state ? (
        <Empty title={text.none.filtered} />
      ) : (
        <Empty title={text.none.title}>
          <p>{text.none.text}</p>
        </Empty>
      )}
      {wished.value && (
        <ToolSheet
          {...wished.value}
          onClose={() => {
            wished.value = undefined;
            found.reload();
          }}
        />
      )}
    </>
  );
}

function Table({ items, onWish }: { items: readonly Tool[]; onWish: (tool: Tool, verb: Verb) => void }) {
  const { columns } = agents.tools;
  const open = useSignal("");
  return (
    <div class="scroller" role="group" aria-label={agents.parts.tools} tabIndex={0}>
      <table class="ops-table">
        <caption class="hidden">{agents.parts.tools}</caption>
        <thead>
          <tr>
            <th scope="col">{columns.name}</th>
            <th scope="col">{columns.state}</th>
            <th scope="col">{columns.effect}</th>
            <th scope="col">{columns.from}</th>
            <th scope="col">
              <span class="hidden">{columns.actions}</span>
            </th>
          </tr>
        </thead>
        <tbody>
          {items.map((one) => (
            <Row
              key={one.name}
              tool={one}
              isOpen={open.value === one.name}
              onToggle={() => (open.value = open.value === one.name ? "" : one.name)}
              onWish={onWish}
            />
          ))}
        </tbody>
      </table>
    </div>
  );
}

interface OneRow {
  readonly tool: Tool;
  readonly isOpen: boolean;
  readonly onToggle: () => void;
  readonly onWish: (tool: Tool, verb: Verb) => void;
}

function Row({ tool, isOpen, onToggle, onWish }: OneRow) {
  const text = agents.tools;
  const off = lacks("system:operate");
  return (
    <>
      <tr>
        <td>
          <button type="button" class="disclose id" aria-expanded={isOpen} onClick={onToggle}>
            <Foreign text={tool.name} />
          </button>
          <div class="soft small">
            <Foreign text={tool.description} />
          </div>
        </td>
        <td>
          <span class="state small" data-group={GROUPS[tool.state]}>
            {text.states[tool.state] ?? tool.state}
          </span>
        </td>
        <td>{text.effects[tool.effect] ?? tool.effect}</td>
        <td>
          <From tool={tool} />
        </td>
        <td class="end">
          <span class="row-buttons">
            {verbsOf(tool).map((verb) => (
              <button
                key={verb}
                type="button"
                aria-disabled={off !== undefined}
                title={off}
                onClick={() => off === undefined && onWish(tool, verb)}
              >
                {text.verbs[verb]}
              </button>
            ))}
          </span>
        </td>
      </tr>
      {isOpen && (
        <tr class="opened">
          <td colSpan={5}>
            <Details tool={tool} />
          </td>
        </tr>
      )}
    </>
  );
}

function From({ tool }: { tool: Tool }) {
  const text = agents.tools;
  const lines = [
    tool.pinned !== null ? text.pinned(tool.pinned) : tool.version !== null && text.highest(tool.version),
    tool.runs !== null && text.used(tool.runs, tool.principals ?? 0),
    tool.by && text.decided(tool.by),
  ].filter(Boolean);
  return (
    <>
      {tool.workflow === null ? (
        text.kinds[tool.kind]
      ) : (
        <a href={href(`/workflows/${encodeURIComponent(tool.workflow)}`)}>
          <Foreign text={tool.workflow} />
        </a>
      )}
      {lines.length > 0 && (
        <div class="soft small">
          <Foreign text={lines.join(" · ")} />
        </div>
      )}
    </>
  );
}

function Details({ tool }: { tool: Tool }) {
  const text = agents.tools;
  return (
    <div class="details">
      {tool.origins && tool.origins.length > 0 && (
        <>
          <h2>{text.origins}</h2>
          <p>
            <Foreign text={tool.origins.join(", ")} />
          </p>
        </>
      )}
      {tool.steps && (
        <>
          <h2>{text.steps}</h2>
          <Json value={tool.steps} copy />
        </>
      )}
      <h2>{text.schema}</h2>
      <SchemaKeys schema={tool.schema} label={text.schema} asked />
    </div>
  );
}

function ToolSheet({ tool, verb, onClose }: Wished & { onClose: () => void }) {
  const text = agents.tools;
  const { name } = tool;
  const alone = useSignal(false);
  const done = useSignal(false);
  const path = { name };
  const isOfOne = verb === "promote" && tool.state === "candidate" && (tool.principals ?? 0) < 2;
  const act = async () => {
    if (verb === "promote") await call("POST /api/v1/tools/{name}/promote", { path, body: { alone: alone.value } });
    else if (verb === "retire") await call("POST /api/v1/tools/{name}/retire", { path });
    else await call("POST /api/v1/tools/{name}/pin", { path });
    done.value = true;
  };
  return (
    <Sheet
      title={text.titles[verb](name)}
      verb={text.verbs[verb]}
      harmful={verb === "retire"}
      onClose={onClose}
      onDo={act}
      whyNot={lacks("system:operate")}
      done={done.value ? <p role="status">{text.done[verb]}</p> : undefined}
    >
      <p>{text.does[verb]}</p>
      {!done.value && (
        <>
          {verb === "promote" && <Details tool={tool} />}
          {isOfOne && (
            <label class="check">
              <input
                type="checkbox"
                checked={alone.value}
                onChange={(event) => (alone.value = event.currentTarget.checked)}
              />
              <span>
                {text.alone} <span class="soft small">{text.aloneHint}</span>
              </span>
            </label>
          )}
          <CopyAs doing={toolDoing(verb, name, alone.value)} />
        </>
      )}
    </Sheet>
  );
}
