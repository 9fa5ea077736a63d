// A form from a JSON Schema. What it cannot show as fields is a text with JSON; what fits is decided by the server.
import { useSignal } from "@preact/signals";
import { createContext } from "preact";
import { useContext, useId } from "preact/hooks";
import { parse, print } from "../api/exact.ts";
import { words } from "../words/workflows.ts";
import { Foreign } from "./basics.tsx";
import { choicesOf, defaultsOf, isObject, resolve, rowsOf, type Schema } from "./schema.ts";

/** The id of a `datalist` that completes texts; none where nothing can be named. */
export const Offers = createContext<string | undefined>(undefined);

interface Given {
  schema: Schema;
  value: unknown;
  onChange: (value: unknown) => void;
  /** What the server found wrong, by path: `city`, `lines.0.price`. */
  problems?: ReadonlyMap<string, string>;
}

interface FieldGiven extends Given {
  root: Schema;
  path: string;
  name: string;
  required: boolean;
}

export function SchemaForm({ schema, value, onChange, problems }: Given) {
  const held = isObject(value) ? value : {};
  const found = resolve(schema, schema);
  return (
    <div class="schema-form">
      <Properties root={schema} schema={found} value={held} onChange={onChange} problems={problems} path="" />
    </div>
  );
}

type PropertiesGiven = Omit<FieldGiven, "name" | "required">;

function Properties({ root, schema, value, onChange, problems, path }: PropertiesGiven) {
  const held = isObject(value) ? value : {};
  const properties = isObject(schema.properties) ? schema.properties : {};
  const required = Array.isArray(schema.required) ? schema.required : [];
  return (
    <>
      {Object.entries(properties).map(([name, one]) => (
        <Field
          key={name}
          root={root}
          schema={isObject(one) ? one : {}}
          value={held[name]}
          name={name}
          path={path ? `${path}.${name}` : name}
          required={required.includes(name)}
          problems={problems}
          onChange={(next) => {
            const copy = { ...held };
            if (next === undefined) delete copy[name];
            else copy[name] = next;
            onChange(copy);
          }}
        />
      ))}
    </>
  );
}

function Field(given: FieldGiven) {
  const schema = resolve(given.root, given.schema);
  const id = useId();
  const title = typeof schema.title === "string" ? schema.title : given.name;
  const trouble = given.problems?.get(given.path);
  const said = `${id}-said`;
  if (schema.type === "object" && isObject(schema.properties)) {
    return (
      <fieldset>
        <legend>
          <Foreign text={title} />
        </legend>
        {typeof schema.description === "string" && (
          <p class="soft">
            <Foreign text={schema.description} />
          </p>
        )}
        <Properties {...given} schema={schema} />
      </fieldset>
    );
  }
  if (schema.type === "array" && isObject(schema.items)) return <List {...given} schema={schema} title={title} />;
  return (
    <div class="field">
      <label for={id}>
        <Foreign text={title} /> {given.required && <span class="soft">{words.form.required}</span>}
      </label>
      <Input {...given} schema={schema} id={id} said={said} />
      <div id={said}>
        {typeof schema.description === "string" && (
          <p class="soft">
            <Foreign text={schema.description} />
          </p>
        )}
        {trouble && (
          <p class="field-problem">
            <Foreign text={trouble} />
          </p>
        )}
      </div>
    </div>
  );
}

type InputGiven = FieldGiven & { id: string; said: string };

function Input({ schema, value, onChange, required, id, said, problems, path }: InputGiven) {
  const common = {
    id,
    "aria-describedby": said,
    "aria-invalid": problems?.has(path) || undefined,
    disabled: schema.readOnly === true,
  };
  const choices = choicesOf(schema);
  if (choices) {
    const chosen = choices.findIndex((one) => print(one.value) === print(value));
    return (
      <select
        {...common}
        value={String(chosen)}
        onChange={(event) => onChange(choices[Number(event.currentTarget.value)]?.value)}
      >
        {(!required || chosen < 0) && <option value="-1">{words.form.none}</option>}
        {choices.map((one, index) => (
          <option key={one.title} value={String(index)}>
            {one.title}
          </option>
        ))}
      </select>
    );
  }
  if (schema.type === "boolean") {
    return (
      <input
        {...common}
        type="checkbox"
        checked={value === true}
        onChange={(event) => onChange(event.currentTarget.checked)}
      />
    );
  }
  if (schema.type === "number" || schema.type === "integer") {
    return (
      <input
        {...common}
        type="text"
        inputMode={schema.type === "integer" ? "numeric" : "decimal"}
        value={value === undefined || value === null ? "" : print(value)}
        onInput={(event) => onChange(readNumber(event.currentTarget.value))}
      />
    );
  }
  if (schema.type === "string") return <Text {...common} schema={schema} value={value} onChange={onChange} />;
  return <Raw {...common} value={value} onChange={onChange} />;
}

/** A number as it was written; what is none is left to the server to refuse. */
function readNumber(text: string): unknown {
  const wanted = text.trim();
  if (wanted === "") return undefined;
  return /^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$/.test(wanted) ? parse(wanted) : wanted;
}

interface Common {
  id: string;
  "aria-describedby": string;
  "aria-invalid": true | undefined;
  disabled: boolean;
}

// Typed as text: which kind it is says the schema, and the attributes of all of them are the same here.
const KINDS = { date: "date", email: "email", uri: "url" } as unknown as Readonly<Record<string, "text">>;

type TextGiven = Common & { schema: Schema; value: unknown; onChange: (value: unknown) => void };

function Text({ schema, value, onChange, ...common }: TextGiven) {
  const list = useContext(Offers);
  const text = typeof value === "string" ? value : "";
  const give = (next: string) => onChange(next === "" ? undefined : next);
  const long = typeof schema.maxLength === "number" && schema.maxLength > 200;
  if (long || schema.format === "multiline")
    return <textarea {...common} rows={4} value={text} onInput={(event) => give(event.currentTarget.value)} />;
  return (
    <input
      {...common}
      type={KINDS[String(schema.format)] ?? "text"}
      list={list}
      maxLength={typeof schema.maxLength === "number" ? schema.maxLength : undefined}
      value={text}
      onInput={(event) => give(event.currentTarget.value)}
    />
  );
}

function Raw({ value, onChange, ...common }: Common & { value: unknown; onChange: (value: unknown) => void }) {
  const text = useSignal(value === undefined ? "" : print(value));
  return (
    <>
      <textarea
        {...common}
        rows={rowsOf(text.value)}
        class="code"
        value={text.value}
        spellcheck={false}
        onInput={(event) => {
          text.value = event.currentTarget.value;
          try {
            onChange(text.value.trim() === "" ? undefined : parse(text.value));
          } catch {
            onChange(text.value); // no JSON: the server says what it wants
          }
        }}
      />
      <p class="soft">{words.form.json}</p>
    </>
  );
}

function List({ schema, value, onChange, title, ...given }: FieldGiven & { title: string }) {
  const items = Array.isArray(value) ? value : [];
  const replace = (index: number, next: unknown) => onChange(items.with(index, next));
  const move = (index: number, to: number) => {
    const copy = [...items];
    const [one] = copy.splice(index, 1);
    copy.splice(to, 0, one);
    onChange(copy);
  };
  return (
    <fieldset>
      <legend>
        <Foreign text={title} />
      </legend>
      {items.map((item, index) => (
        <div key={index} class="list-row">
          <Field
            {...given}
            schema={schema.items as Schema}
            value={item}
            name={String(index + 1)}
            path={`${given.path}.${index}`}
            required
            onChange={(next) => replace(index, next ?? null)}
          />
          <span class="group">
            <button type="button" disabled={index === 0} onClick={() => move(index, index - 1)}>
              {words.form.up}
            </button>
            <button type="button" disabled={index === items.length - 1} onClick={() => move(index, index + 1)}>
              {words.form.down}
            </button>
            <button type="button" onClick={() => onChange(items.filter((_, other) => other !== index))}>
              {words.form.remove}
            </button>
          </span>
        </div>
      ))}
      <button type="button" onClick={() => onChange([...items, defaultsOf(given.root, schema.items as Schema) ?? ""])}>
        {words.form.add}
      </button>
    </fieldset>
  );
}
