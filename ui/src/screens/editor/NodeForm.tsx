// The chosen node as a form, and adding one: by pointer or by keyboard alone.
import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { call, type Schemas } from "../../api/call.ts";
import { parse, print } from "../../api/exact.ts";
import { useLoad } from "../../api/load.ts";
import { CopyButton, Foreign, Loading } from "../../kit/basics.tsx";
import { Problem as Refusal } from "../../kit/problem.tsx";
import { Offers, SchemaForm } from "../../kit/SchemaForm.tsx";
import { rowsOf, type Schema } from "../../kit/schema.ts";
import { href } from "../../router.ts";
import { words } from "../../words/editor.ts";
import { addNode, connect, type Definition, edgesOf, type Node, nodesOf, removeNode, replaceNode } from "./model.ts";
import { namesAt } from "./naming.ts";

interface Given {
  definition: Definition | undefined;
  chosen: string;
  adding: boolean;
  problems: readonly Schemas["Problem"][];
  onAdd: (on: boolean) => void;
  onChoose: (id: string) => void;
  onChange: (definition: Definition) => void;
}

export function NodeForm({ definition, chosen, adding, problems, onAdd, onChoose, onChange }: Given) {
  const text = words.form;
  const types = useLoad("types", (signal) => call("GET /api/v1/node-types", { signal }));
  const kept = useRef(definition);
  if (definition) kept.current = definition;
  const shown = kept.current;
  if (types.error.value !== undefined) return <Refusal error={types.error.value} onRetry={types.reload} />;
  const kinds = types.data.value?.items;
  if (!kinds) return <Loading rows={3} />;
  if (!shown) return <p class="nothing soft">{text.mend}</p>;
  const node = nodesOf(shown).find((one) => one.id === chosen);
  return (
    <div class="node-form stack">
      {!definition && <p class="soft">{text.mend}</p>}
      <p>
        <button type="button" disabled={!definition} aria-expanded={adding} onClick={() => onAdd(!adding)}>
          {text.add}
        </button>
      </p>
      {adding && definition && (
        <Adding
          kinds={kinds}
          nodes={nodesOf(definition).map((one) => one.id)}
          after={chosen}
          onCancel={() => onAdd(false)}
          onDone={(type, after) => {
            const kind = kinds.find((one) => one.name === type);
            if (!kind) return;
            const made = addNode(definition, kind, after);
            onChange(made.definition);
            onChoose(made.id);
            onAdd(false);
          }}
        />
      )}
      {node && definition ? (
        <Details
          key={node.id}
          definition={definition}
          node={node}
          schema={kinds.find((one) => one.name === node.type)?.config_schema}
          names={namesAt(definition, node.id, kinds)}
          problems={problemsOf(problems, nodesOf(definition).indexOf(node))}
          onChoose={onChoose}
          onChange={onChange}
        />
      ) : (
        !adding && <p class="soft">{text.choose}</p>
      )}
    </div>
  );
}

/** What is wrong with the config of a node, by the path in it. */
function problemsOf(problems: readonly Schemas["Problem"][], index: number): ReadonlyMap<string, string> {
  const prefix = `nodes[${index}].config.`;
  return new Map(
    problems
      .filter((one) => one.path.startsWith(prefix))
      .map((one) => [one.path.slice(prefix.length).replaceAll(/\[(\d+)\]/g, ".$1"), one.message]),
  );
}

interface AddingGiven {
  kinds: readonly Schemas["NodeTypeItem"][];
  nodes: readonly string[];
  after: string;
  onCancel: () => void;
  onDone: (type: string, after: string) => void;
}

function Adding({ kinds, nodes, after, onCancel, onDone }: AddingGiven) {
  const text = words.form;
  const type = useSignal(kinds.some((one) => one.name === "transform") ? "transform" : (kinds[0]?.name ?? ""));
  const behind = useSignal(after || (nodes.at(-1) ?? ""));
  const first = useRef<HTMLSelectElement>(null);
  useEffect(() => first.current?.focus(), []);
  return (
    <form
      class="card"
      onSubmit={(event) => {
        event.preventDefault();
        onDone(type.value, behind.value);
      }}
      onKeyDown={(event) => {
        // Enter in a list of choices adds, as it does in a field.
        if (event.key === "Enter" && event.target instanceof HTMLSelectElement) {
          event.preventDefault();
          onDone(type.value, behind.value);
        } else if (event.key === "Escape") onCancel();
      }}
    >
      <label class="field">
        {text.type}
        <select ref={first} value={type.value} onChange={(event) => (type.value = event.currentTarget.value)}>
          {kinds.map((one) => (
            <option key={one.name} value={one.name}>
              {one.name}
            </option>
          ))}
        </select>
      </label>
      <label class="field">
        {text.after}
        <select value={behind.value} onChange={(event) => (behind.value = event.currentTarget.value)}>
          <option value="">{text.none}</option>
          {nodes.map((one) => (
            <option key={one} value={one}>
              {one}
            </option>
          ))}
        </select>
      </label>
      <div class="bar">
        <button type="submit" class="primary">
          {text.insert}
        </button>
        <button type="button" onClick={onCancel}>
          {text.cancel}
        </button>
      </div>
    </form>
  );
}

interface DetailsGiven {
  definition: Definition;
  node: Node;
  schema: unknown;
  /** What it can name in templates and conditions. */
  names: readonly string[];
  problems: ReadonlyMap<string, string>;
  onChoose: (id: string) => void;
  onChange: (definition: Definition) => void;
}

function Details({ definition, node, schema, names, problems, onChoose, onChange }: DetailsGiven) {
  const text = words.form;
  const { id, config, ...rest } = node;
  const name = useSignal(id);
  const before = new Set(edgesOf(definition).flatMap((edge) => (edge.to === id ? [edge.from] : [])));
  const known = schema !== null && typeof schema === "object" && "properties" in schema;
  return (
    <div class="stack">
      <label class="field">
        {text.id}
        <input
          type="text"
          value={name.value}
          maxLength={200}
          onInput={(event) => (name.value = event.currentTarget.value)}
          onChange={() => {
            if (!name.value || name.value === id) return;
            onChange(replaceNode(definition, id, { ...node, id: name.value }));
            onChoose(name.value);
          }}
        />
      </label>
      <section class="stack">
        <h2>
          {text.config}{" "}
          <a href={href(`/node-types/${encodeURIComponent(String(node.type))}`)} target="_blank" rel="noopener">
            <code>{String(node.type)}</code>
          </a>
        </h2>
        {known ? (
          <Offers.Provider value="editor-templates">
            <SchemaForm
              schema={schema as Schema}
              value={config ?? {}}
              problems={problems}
              onChange={(value) => onChange(replaceNode(definition, id, { ...node, config: value }))}
            />
          </Offers.Provider>
        ) : (
          <JsonField
            label={text.config}
            value={config ?? {}}
            onChange={(value) => onChange(replaceNode(definition, id, { ...node, config: value }))}
          />
        )}
      </section>
      <fieldset class="after">
        <legend>{text.after}</legend>
        {nodesOf(definition)
          .filter((one) => one.id !== id)
          .map((one) => (
            <label key={one.id} class="check">
              <input
                type="checkbox"
                checked={before.has(one.id)}
                onChange={(event) => onChange(connect(definition, one.id, id, event.currentTarget.checked))}
              />
              <Foreign text={one.id} />
            </label>
          ))}
      </fieldset>
      {(node.when === undefined || typeof node.when === "string") && (
        <label class="field">
          {text.when}
          <input
            type="text"
            list="editor-names"
            value={node.when ?? ""}
            spellcheck={false}
            onChange={(event) => {
              const { when: _, ...others } = node;
              const when = event.currentTarget.value.trim();
              onChange(replaceNode(definition, id, { ...others, id, ...(when ? { when } : {}) }));
            }}
          />
        </label>
      )}
      {names.length > 0 && <Named names={names} />}
      <JsonField
        label={text.rest}
        value={rest}
        onChange={(value) =>
          onChange(
            replaceNode(definition, id, { ...(value as object), id, ...(config === undefined ? {} : { config }) }),
          )
        }
      />
      <p>
        <button
          type="button"
          class="danger"
          onClick={() => {
            onChange(removeNode(definition, id));
            onChoose("");
          }}
        >
          {text.remove}
        </button>
      </p>
    </div>
  );
}

/** Completes texts and conditions, and lists what there is to copy. */
function Named({ names }: { names: readonly string[] }) {
  return (
    <details class="named">
      <summary>{words.form.names(names.length)}</summary>
      <datalist id="editor-names">
        {names.map((one) => (
          <option key={one} value={one} />
        ))}
      </datalist>
      <datalist id="editor-templates">
        {names.map((one) => (
          <option key={one} value={`{{ ${one} }}`} />
        ))}
      </datalist>
      {names.map((one) => (
        <CopyButton key={one} text={`{{ ${one} }}`} label={one} />
      ))}
    </details>
  );
}

function JsonField({ label, value, onChange }: { label: string; value: unknown; onChange: (value: unknown) => void }) {
  const text = useSignal(print(value));
  const bad = useSignal("");
  return (
    <label class="field">
      {label}
      <textarea
        class="code"
        rows={rowsOf(text.value)}
        spellcheck={false}
        value={text.value}
        aria-invalid={bad.value ? true : undefined}
        onInput={(event) => (text.value = event.currentTarget.value)}
        onChange={() => {
          try {
            const next = parse(text.value);
            bad.value = "";
            onChange(next);
          } catch (error) {
            bad.value = words.form.bad(error instanceof Error ? error.message : "");
          }
        }}
      />
      {bad.value && <span class="field-problem">{bad.value}</span>}
    </label>
  );
}
