// One type of node: what it does, where it runs, what its config takes and gives, and an example to begin from.
import { useEffect } from "preact/hooks";
import { call, type Schemas } from "../../api/call.ts";
import { useLoad } from "../../api/load.ts";
import { CopyButton, Foreign, Loading } from "../../kit/basics.tsx";
import { Problem } from "../../kit/problem.tsx";
import { Coded, SchemaKeys } from "../../kit/SchemaKeys.tsx";
import { href } from "../../router.ts";
import { words as general } from "../../words/en.ts";
import { words } from "../../words/workflows.ts";
import { printYaml } from "../editor/yaml.ts";

type Type = Schemas["NodeType"];

export default function NodeType({ names }: { names: Readonly<Record<string, string>> }) {
  const name = names.name ?? "";
  const text = words.nodeType;
  const loaded = useLoad(name, (signal) => call("GET /api/v1/node-types/{name}", { path: { name }, signal }));
  useEffect(() => {
    document.title = `${name} · ${general.product}`;
  }, [name]);
  const found = loaded.data.value;
  return (
    <section class="screen">
      <div class="crumbs">
        <a href={href("/workflows")}>{words.title}</a>
        <span aria-hidden="true">/</span>
        <span>{text.crumb}</span>
      </div>
      <header class="head">
        <h1>
          <Foreign text={name} />
        </h1>
      </header>
      {found ? (
        <About found={found} />
      ) : loaded.error.value === undefined ? (
        <Loading rows={6} />
      ) : (
        <Problem error={loaded.error.value} onRetry={loaded.reload} />
      )}
    </section>
  );
}

function About({ found }: { found: Type }) {
  const text = words.nodeType;
  const example = found.example === null || found.example === undefined ? "" : printYaml(found.example);
  const facts: readonly (readonly [string, string])[] = [
    [text.version, found.version],
    [text.source, found.source],
    [text.runsOn, text.places[found.runs_on] ?? found.runs_on],
    [text.capabilities, found.capabilities.join(", ") || text.none],
    ...(found.aliases.length ? [[text.aliases, found.aliases.join(", ")] as const] : []),
  ];
  return (
    <>
      <p>
        <Coded text={found.description} />
      </p>
      {found.problem && (
        <div class="failure" role="status">
          <Foreign text={found.problem} />
        </div>
      )}
      <dl class="facts">
        {facts.map(([label, value]) => (
          <div key={label}>
            <dt>{label}</dt>
            <dd>
              <Foreign text={value} />
            </dd>
          </div>
        ))}
      </dl>
      <div class="side-by-side">
        <section class="card">
          <h2>{text.config}</h2>
          <SchemaKeys schema={found.config_schema} label={text.config} asked />
        </section>
        <div class="stack">
          {example && (
            <section class="card">
              <div class="head">
                <h2>{text.example}</h2>
                <CopyButton text={example} />
              </div>
              <pre class="preview">
                <Foreign text={example} />
              </pre>
            </section>
          )}
          <section class="card">
            <h2>{text.output}</h2>
            <SchemaKeys schema={found.output_schema} label={text.output} />
          </section>
        </div>
      </div>
    </>
  );
}
