// Filters that were given a name: chosen above the list, kept on the server, one's own or everybody's.
import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { call, type Schemas } from "../../api/call.ts";
import { useLoad } from "../../api/load.ts";
import { Dialog, Foreign } from "../../kit/basics.tsx";
import { Problem } from "../../kit/problem.tsx";
import { change, go, href, place, spell } from "../../router.ts";
import { lacks } from "../../shell/me.ts";
import { words } from "../../words/en.ts";
import { runs } from "../../words/runs.ts";
import { type Filter, isEmpty, readFilter, toQuery } from "./filter.ts";

type View = Schemas["SavedView"];

/** The filter of a view as this program spells it, whoever saved it. */
export const spelled = (query: string): string => spell(toQuery(readFilter(new URLSearchParams(query)))).slice(1);

export function Views({ filter }: { filter: Filter }) {
  const text = runs.views;
  const asking = useSignal<"save" | "delete" | undefined>(undefined);
  const loaded = useLoad("", (signal) => call("GET /api/v1/views", { signal }));
  const views = loaded.data.value?.items ?? [];
  const here = spell(toQuery(filter)).slice(1);
  const name = place.value.query.get("view") ?? "";
  const chosen = views.find((view) => view.name === name);
  // An address that names a view and nothing else means its filter.
  useEffect(() => {
    if (chosen && !here) go(`${href("/runs")}?${withName(chosen)}`, { replace: true });
  }, [chosen, here]);
  if (views.length === 0 && isEmpty(filter)) return null;
  const isAsSaved = chosen !== undefined && spelled(chosen.query) === here;
  return (
    <nav class="views" aria-label={text.label}>
      {views.map((view) => (
        <a
          key={`${view.name} ${view.shared}`}
          class="view-link"
          href={`${href("/runs")}?${withName(view)}`}
          aria-current={isAsSaved && view === chosen ? "true" : undefined}
          title={view.shared ? text.sharedBy(view.saved_by) : undefined}
        >
          <Foreign text={view.name} />
          {view.shared && <span class="soft"> {text.shared}</span>}
        </a>
      ))}
      {!isEmpty(filter) && !isAsSaved && (
        <button type="button" class="quiet" onClick={() => (asking.value = "save")}>
          {text.save}
        </button>
      )}
      {isAsSaved && (
        <button type="button" class="quiet" onClick={() => (asking.value = "delete")}>
          {text.delete}
        </button>
      )}
      {asking.value === "save" && (
        <SaveDialog
          query={here}
          name={name}
          onDone={(view) => {
            asking.value = undefined;
            if (view) change({ view: view.name }, true);
            loaded.reload();
          }}
        />
      )}
      {asking.value === "delete" && chosen && (
        <DeleteDialog
          view={chosen}
          onDone={(gone) => {
            asking.value = undefined;
            if (gone) change({ view: undefined }, true);
            loaded.reload();
          }}
        />
      )}
    </nav>
  );
}

const withName = (view: View): string =>
  [spelled(view.query), spell({ view: view.name }).slice(1)].filter(Boolean).join("&");

function SaveDialog({ query, name, onDone }: { query: string; name: string; onDone: (view?: View) => void }) {
  const text = runs.views;
  const error = useSignal<unknown>(undefined);
  const busy = useSignal(false);
  const off = lacks("runs:operate");
  const save = async (form: HTMLFormElement) => {
    const given = new FormData(form);
    busy.value = true;
    try {
      const path = { name: String(given.get("name")).trim() };
      const body = { query, shared: given.get("shared") !== null };
      onDone(await call("PUT /api/v1/views/{name}", { path, body }));
    } catch (caught) {
      error.value = caught;
      busy.value = false;
    }
  };
  return (
    <Dialog title={text.saveTitle} onClose={() => onDone()}>
      <form
        class="stack"
        onSubmit={(event) => {
          event.preventDefault();
          void save(event.currentTarget);
        }}
      >
        <label class="field">
          <span>{text.name}</span>
          <input
            type="search"
            name="name"
            required
            maxLength={100}
            pattern="[^\/]*[^\s\/][^\/]*"
            title={text.nameHint}
            defaultValue={name}
          />
        </label>
        <label class="check">
          <input type="checkbox" name="shared" disabled={off !== undefined} title={off} />
          <span>{text.forAll}</span>
        </label>
        {off !== undefined && <p class="soft small">{off}</p>}
        <p class="soft small">{text.replaces}</p>
        {error.value !== undefined && <Problem error={error.value} />}
        <button type="submit" class="strong" disabled={busy.value}>
          {text.saveDo}
        </button>
      </form>
    </Dialog>
  );
}

function DeleteDialog({ view, onDone }: { view: View; onDone: (gone: boolean) => void }) {
  const text = runs.views;
  const error = useSignal<unknown>(undefined);
  const off = view.shared ? lacks("runs:operate") : undefined;
  const remove = async () => {
    try {
      await call("DELETE /api/v1/views/{name}", { path: { name: view.name }, query: { shared: view.shared } });
      onDone(true);
    } catch (caught) {
      error.value = caught;
    }
  };
  return (
    <Dialog title={text.deleteTitle} onClose={() => onDone(false)}>
      <div class="stack">
        <p>
          <Foreign text={view.shared ? text.deleteShared(view.name) : text.deleteOwn(view.name)} />
        </p>
        {off !== undefined && <p class="soft small">{off}</p>}
        {error.value !== undefined && <Problem error={error.value} />}
        <button type="button" class="strong" disabled={off !== undefined} onClick={() => void remove()}>
          {words.delete}
        </button>
      </div>
    </Dialog>
  );
}
