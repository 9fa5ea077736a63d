// The keys of an object, out of its JSON Schema: what each is for, what it takes, and what it is without being given.
import { print } from "../api/exact.ts";
import { words } from "../words/workflows.ts";
import { Foreign } from "./basics.tsx";
import { Json } from "./Json.tsx";
import { isObject, type Schema } from "./schema.ts";
import { limitsOf, typesOf } from "./schemaWords.ts";

interface Given {
  readonly schema: unknown;
  readonly label: string;
  /** Whether somebody gives these keys, and must give some of them. */
  readonly asked?: boolean;
}

export function SchemaKeys({ schema: given, label, asked = false }: Given) {
  const text = words.nodeType.keys;
  const schema: Schema = isObject(given) ? given : {};
  const { properties } = schema;
  if (!isObject(properties) || Object.keys(properties).length === 0) return <Json value={given} copy />;
  const needed = new Set(asked && Array.isArray(schema.required) ? schema.required : []);
  const entries = Object.entries(properties).toSorted(
    ([one], [other]) => Number(needed.has(other)) - Number(needed.has(one)),
  );
  return (
    <>
      <dl class="type-keys" aria-label={label}>
        {entries.map(([name, found]) => {
          const one = isObject(found) ? found : {};
          return (
            <div key={name}>
              <dt>
                <code>{name}</code>
                <span class="soft">
                  <Foreign text={[typesOf(one), ...limitsOf(one)].join(", ")} />
                  {asked && "default" in one && (
                    <>
                      {" · "}
                      {text.otherwise} <code>{print(one.default)}</code>
                    </>
                  )}
                </span>
                {needed.has(name) && <strong class="needed">{text.required}</strong>}
              </dt>
              {typeof one.description === "string" && (
                <dd>
                  <Coded text={one.description} />
                </dd>
              )}
            </div>
          );
        })}
      </dl>
      <details>
        <summary>{text.schema}</summary>
        <Json value={schema} copy />
      </details>
    </>
  );
}

/** Text in which what stands between backticks is code. */
export function Coded({ text }: { text: string }) {
  const parts = text.split("`");
  if (parts.length % 2 === 0) return <Foreign text={text} />;
  return (
    <>
      {parts.map((part, index) =>
        index % 2 === 1 ? (
          <code key={index}>
            <Foreign text={part} />
          </code>
        ) : (
          <Foreign key={index} text={part} />
        ),
      )}
    </>
  );
}
