// Graph, text and form of one definition, and what the server says of it. Saving is the matter of the screen around it.
import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { Plan } from "../../graph/Plan.tsx";
import { Foreign, Loading } from "../../kit/basics.tsx";
import { Problem as Refusal } from "../../kit/problem.tsx";
import { words } from "../../words/editor.ts";
import { Code, type CodeHandle } from "./Code.tsx";
import type { Definition } from "./model.ts";
import { NodeForm } from "./NodeForm.tsx";
import type { Problem, Session } from "./session.ts";
import { printDefinition } from "./yaml.ts";

interface Given {
  session: Session;
  marks?: ReadonlyMap<string, string>;
  children?: ComponentChildren;
}

export function Workbench({ session, marks, children }: Given) {
  const code = useRef<CodeHandle>(null);
  const view = useSignal<"text" | "form">("text");
  const chosen = useSignal("");
  const adding = useSignal(false);
  const problems = session.problems.value;
  useEffect(() => {
    code.current?.show(
      problems.flatMap((one) =>
        typeof one.line === "number"
          ? [{ line: one.line, message: one.message, severe: one.severity !== "warning" }]
          : [],
      ),
    );
  }, [problems]);
  useEffect(() => {
    session.show = (text) => code.current?.replace(text);
    return () => {
      session.show = undefined;
    };
  }, [session]);
  const rewrite = (definition: Definition) => code.current?.replace(printDefinition(definition));
  const broken = session.errors.value.length > 0 || session.error.value !== undefined;
  const graph = session.graph.value;
  return (
    <div class="workbench">
      <div class={broken ? "workbench-graph stale" : "workbench-graph"}>
        {graph ? (
          <Plan
            graph={graph}
            label={words.graph}
            chosen={chosen.value}
            marks={marks}
            onChoose={(id) => {
              chosen.value = id;
              adding.value = false;
              view.value = "form";
            }}
            onKey={(event, id) => {
              if (event.key !== "a") return;
              event.preventDefault();
              chosen.value = id;
              adding.value = true;
              view.value = "form";
            }}
          />
        ) : session.checking.value ? (
          <Loading />
        ) : (
          <p class="nothing soft">{words.nothing}</p>
        )}
        {broken && graph && <p class="soft">{words.stale}</p>}
      </div>
      <div class="workbench-side">
        <div class="tabs" role="tablist" aria-label={words.views.label}>
          {(["text", "form"] as const).map((one) => (
            <button
              key={one}
              type="button"
              role="tab"
              id={`edit-${one}`}
              aria-controls={`edit-${one}-panel`}
              aria-selected={view.value === one}
              tabIndex={view.value === one ? 0 : -1}
              onClick={() => (view.value = one)}
              onKeyDown={(event) => {
                if (event.key !== "ArrowRight" && event.key !== "ArrowLeft") return;
                view.value = one === "text" ? "form" : "text";
                document.getElementById(`edit-${view.value}`)?.focus();
              }}
            >
              {words.views[one]}
            </button>
          ))}
        </div>
        <div id="edit-text-panel" role="tabpanel" aria-labelledby="edit-text" hidden={view.value !== "text"}>
          <Code
            text={session.text.peek()}
            label={words.text}
            handle={code}
            onChange={(text) => {
              if (text !== session.text.peek()) session.write(text);
            }}
          />
          <p class="soft">
            {words.comments} {words.undo}
          </p>
        </div>
        <div id="edit-form-panel" role="tabpanel" aria-labelledby="edit-form" hidden={view.value !== "form"}>
          {view.value === "form" && (
            <NodeForm
              definition={session.definition.value}
              chosen={chosen.value}
              adding={adding.value}
              problems={problems}
              onAdd={(on) => (adding.value = on)}
              onChoose={(id) => (chosen.value = id)}
              onChange={rewrite}
            />
          )}
        </div>
        <Problems
          session={session}
          problems={problems}
          onLine={(line) => {
            view.value = "text";
            code.current?.goTo(line);
          }}
        />
        {children}
      </div>
    </div>
  );
}

interface ProblemsGiven {
  session: Session;
  problems: readonly Problem[];
  onLine: (line: number) => void;
}

function Problems({ session, problems, onLine }: ProblemsGiven) {
  if (session.error.value !== undefined)
    return <Refusal error={session.error.value} onRetry={() => void session.check()} />;
  return (
    <section class="card problems" aria-live="polite" data-checked={!session.checking.value}>
      <h2>
        {session.checking.value ? words.checking : problems.length ? words.problems(problems.length) : words.valid}
      </h2>
      <ul>
        {problems.map((one) => (
          <li key={one.path + one.code + one.message} data-severity={one.severity ?? "error"}>
            {typeof one.line === "number" && (
              <button type="button" class="quiet" onClick={() => onLine(one.line!)}>
                {words.goTo(one.line)}
              </button>
            )}{" "}
            {one.path && (
              <code>
                <Foreign text={one.path} />
              </code>
            )}{" "}
            <Foreign text={one.message} />
          </li>
        ))}
      </ul>
    </section>
  );
}
