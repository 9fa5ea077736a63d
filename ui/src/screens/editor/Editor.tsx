// Edit a workflow, or write a new one: saved as a patch of the version it began from, with a reason.
import { useSignal } from "@preact/signals";
import { useEffect, useMemo } from "preact/hooks";
import { call, Refused, type Schemas } from "../../api/call.ts";
import { useLoad } from "../../api/load.ts";
import { Dialog, Foreign, Loading } from "../../kit/basics.tsx";
import { CopyAs } from "../../kit/CopyAs.tsx";
import type { Doing } from "../../kit/commands.ts";
import { Json } from "../../kit/Json.tsx";
import { Problem } from "../../kit/problem.tsx";
import { go, href, place } from "../../router.ts";
import { lacks, readMe } from "../../shell/me.ts";
import { words } from "../../words/editor.ts";
import { words as all } from "../../words/en.ts";
import { words as workflows } from "../../words/workflows.ts";
import { ChangeList } from "../workflows/Diff.tsx";
import type { Definition } from "./model.ts";
import { type Clash, merge } from "./patch.ts";
import { Session } from "./session.ts";
import { Trial, TrySheet } from "./Trial.tsx";
import { Workbench } from "./Workbench.tsx";
import { printDefinition } from "./yaml.ts";

type Patched = Schemas["Patched"];
type Details = Schemas["WorkflowDetails"];

export default function Editor({ names }: { names: Readonly<Record<string, string>> }) {
  const name = names.name;
  const version = Number(place.value.query.get("version")) || undefined;
  const session = useMemo(() => new Session(`workflow ${name ?? ""}`), [name]);
  const ready = useSignal(false);
  useEffect(() => {
    document.title = `${name === undefined ? words.fresh : words.title(name)} · ${all.product}`;
    void readMe();
    return () => session.end();
  }, [session]);
  const loaded = useLoad(`${name} ${version}`, async (signal) =>
    name === undefined ? undefined : { found: await read(name, version, session.draftOf, signal) },
  );
  useEffect(() => {
    if (name === undefined) session.begin({ definition: {}, version: 0, text: words.example });
    else if (loaded.data.value) session.begin(baseOf(loaded.data.value.found));
    else return;
    ready.value = true;
  }, [session, loaded.data.value]);
  return (
    <section class="screen editor">
      <div class="crumbs">
        <a href={href("/workflows")}>{workflows.title}</a>
        {name !== undefined && (
          <>
            <span aria-hidden="true">/</span>
            <a href={href(`/workflows/${encodeURIComponent(name)}`)}>
              <Foreign text={name} className="id" />
            </a>
          </>
        )}
      </div>
      {!(ready.value && loaded.error.value === undefined) && (
        <h1>
          <Foreign text={name === undefined ? words.fresh : words.title(name)} />
        </h1>
      )}
      {loaded.error.value !== undefined ? (
        <Problem error={loaded.error.value} onRetry={loaded.reload} />
      ) : ready.value ? (
        <Page key={session.base.value.version} session={session} name={name} />
      ) : (
        <Loading />
      )}
    </section>
  );
}

/** The version that is edited: where a draft was begun, the one it was made of, so that saving brings it together with what came since. */
async function read(name: string, version: number | undefined, drafted: number | undefined, signal: AbortSignal) {
  const path = { name };
  try {
    return await call("GET /api/v1/workflows/{name}", { path, query: { version: version ?? drafted }, signal });
  } catch (error) {
    if (version !== undefined || drafted === undefined) throw error;
    return call("GET /api/v1/workflows/{name}", { path, signal });
  }
}

const baseOf = (found: Details) => ({
  definition: found.definition as Definition,
  version: found.version,
  text: printDefinition(found.definition),
});

interface Meeting {
  readonly theirs: Details;
  readonly clashes: readonly Clash[];
}

function Page({ session, name }: { session: Session; name: string | undefined }) {
  const saving = useSignal(false);
  const trying = useSignal(false);
  const trial = useSignal("");
  const marks = useSignal<ReadonlyMap<string, string> | undefined>(undefined);
  const meeting = useSignal<Meeting | undefined>(undefined);
  const why = lacks("workflows:write");
  const idle = session.patch.value?.length === 0 && name !== undefined;
  const meet = async () => {
    const theirs = await call("GET /api/v1/workflows/{name}", { path: { name: name ?? "" } });
    const { clashes } = merge(
      session.base.peek().definition,
      session.definition.peek(),
      theirs.definition,
      () => "mine",
    );
    saving.value = false;
    meeting.value = { theirs, clashes };
  };
  return (
    <>
      <div class="head">
        <h1>
          <Foreign text={name === undefined ? words.fresh : words.title(name)} />
          {name !== undefined && <span class="soft plain"> @{session.base.value.version}</span>}
        </h1>
        <div class="bar">
          <button
            type="button"
            disabled={!session.definition.value || session.checking.value}
            onClick={() => (trying.value = true)}
          >
            {words.trial.verb}
          </button>
          <button
            type="button"
            class="primary"
            disabled={!session.definition.value || session.checking.value || idle || why !== undefined}
            title={why ?? (idle ? words.saving.none : undefined)}
            onClick={() => (saving.value = true)}
          >
            {words.save}
          </button>
        </div>
      </div>
      {session.restored.value && (
        <p class="reason" data-group="busy">
          <span>{words.draft}</span>
          <button
            type="button"
            onClick={() => {
              session.forget();
              location.reload();
            }}
          >
            {words.discard}
          </button>
        </p>
      )}
      {trial.value && (
        <Trial
          key={trial.value}
          runId={trial.value}
          onMarks={(found) => (marks.value = found)}
          onClose={() => (trial.value = "")}
        />
      )}
      <Workbench session={session} marks={marks.value} />
      {trying.value && session.definition.value && (
        <TrySheet
          definition={session.definition.value}
          onStart={(runId) => {
            trial.value = runId;
            trying.value = false;
          }}
          onClose={() => (trying.value = false)}
        />
      )}
      {saving.value && (
        <Saving session={session} name={name} onClose={() => (saving.value = false)} onConflict={meet} />
      )}
      {meeting.value && <Meet session={session} meeting={meeting.value} onClose={() => (meeting.value = undefined)} />}
    </>
  );
}

interface SavingGiven {
  session: Session;
  name: string | undefined;
  onClose: () => void;
  onConflict: () => Promise<void>;
}

/** What saving would change, a reason, and then it is saved. */
function Saving({ session, name, onClose, onConflict }: SavingGiven) {
  const text = words.saving;
  const reason = useSignal("");
  const error = useSignal<unknown>(undefined);
  const busy = useSignal(false);
  const send = (dry_run: boolean, signal?: AbortSignal): Promise<Patched> =>
    call("POST /api/v1/workflows/{name}/patch", {
      path: { name: name ?? "" },
      body: {
        patch: session.patch.peek() as unknown[],
        base_version: session.base.peek().version,
        reason: reason.peek(),
        dry_run,
      } as never,
      signal,
    });
  const tried = useLoad("dry run", async (signal) => {
    if (name === undefined) return undefined;
    try {
      return await send(true, signal);
    } catch (caught) {
      if (!isConflict(caught)) throw caught;
      await onConflict();
      return undefined;
    }
  });
  const save = async (event: Event) => {
    event.preventDefault();
    busy.value = true;
    try {
      const done =
        name === undefined
          ? await call("POST /api/v1/workflows", {
              query: { reason: reason.value || undefined },
              raw: session.text.peek(),
              headers: { "Content-Type": "application/yaml" },
            })
          : await send(false);
      session.forget();
      go(href(`/workflows/${encodeURIComponent(done.name)}`));
    } catch (caught) {
      busy.value = false;
      if (name !== undefined && isConflict(caught)) await onConflict();
      else error.value = caught;
    }
  };
  const changes = tried.data.value?.changes;
  return (
    <Dialog title={text.title} onClose={onClose}>
      <form class="stack" onSubmit={save}>
        {tried.error.value !== undefined ? (
          <Problem error={tried.error.value} onRetry={tried.reload} />
        ) : (
          changes && <ChangeList changes={changes} />
        )}
        <label class="field">
          {text.reason}
          <input
            type="text"
            maxLength={2000}
            placeholder={text.reasonHint}
            value={reason.value}
            onInput={(event) => (reason.value = event.currentTarget.value)}
          />
        </label>
        {error.value !== undefined && <Problem error={error.value} />}
        <CopyAs doing={name === undefined ? pushDoing(session) : patchDoing(name, session, reason.value)} />
        <p>
          <button type="submit" class="primary" disabled={busy.value || (name !== undefined && !changes)}>
            {words.save}
          </button>
        </p>
      </form>
    </Dialog>
  );
}

/** A new workflow is sent as a whole. The command line takes a file, which the browser has not. */
function pushDoing(session: Session): Doing {
  const definition = session.definition.peek() ?? {};
  return {
    method: "POST",
    path: "/api/v1/workflows",
    body: definition,
    python: ["workflows.register", [definition], {}],
  };
}

function patchDoing(name: string, session: Session, reason: string): Doing {
  const patch = session.patch.peek() ?? [];
  const given = { base_version: session.base.peek().version, reason: reason || undefined };
  return {
    method: "POST",
    path: `/api/v1/workflows/${encodeURIComponent(name)}/patch`,
    body: { patch, ...given },
    python: ["workflows.patch", [name, patch], given],
  };
}

const isConflict = (error: unknown): boolean => error instanceof Refused && error.problem.status === 409;

/** Another version came: both changes together, and a choice where both changed the same. */
function Meet({ session, meeting, onClose }: { session: Session; meeting: Meeting; onClose: () => void }) {
  const text = words.conflict;
  const chosen = useSignal<ReadonlyMap<string, "mine" | "theirs">>(new Map());
  const take = () => {
    const choose = (path: readonly string[]) => chosen.peek().get(path.join(" ")) ?? "mine";
    const { theirs } = meeting;
    const merged = merge(session.base.peek().definition, session.definition.peek(), theirs.definition, choose);
    session.base.value = baseOf(theirs);
    session.write(printDefinition(merged.value));
    onClose();
  };
  return (
    <Dialog title={text.title(meeting.theirs.version)} onClose={onClose}>
      <div class="stack">
        <p>{text.text}</p>
        {meeting.clashes.length > 0 && <p>{text.clashes}</p>}
        {meeting.clashes.map((clash) => {
          const path = clash.path.join(" ");
          const pick = (which: "mine" | "theirs") => {
            chosen.value = new Map([...chosen.value, [path, which]]);
          };
          return (
            <fieldset key={path} class="clash">
              <legend>
                <code>
                  <Foreign text={path} />
                </code>
              </legend>
              {(["mine", "theirs"] as const).map((which) => (
                <div key={which} class="then">
                  <label class="check">
                    <input
                      type="radio"
                      name={path}
                      checked={(chosen.value.get(path) ?? "mine") === which}
                      onChange={() => pick(which)}
                    />
                    {text[which]}
                  </label>
                  <Json value={clash[which]} />
                </div>
              ))}
            </fieldset>
          );
        })}
        <p>
          <button type="button" class="primary" onClick={take}>
            {text.take}
          </button>
        </p>
      </div>
    </Dialog>
  );
}
