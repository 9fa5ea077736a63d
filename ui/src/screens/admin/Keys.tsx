// API keys: made here and shown once, listed without their secret, revoked.
import { useSignal } from "@preact/signals";
import { call, type Schemas } from "../../api/call.ts";
import { useLoad } from "../../api/load.ts";
import { CopyButton, Dialog, Empty, Foreign, Loading, Moment } from "../../kit/basics.tsx";
import { CopyAs } from "../../kit/CopyAs.tsx";
import type { Doing } from "../../kit/commands.ts";
import { Problem } from "../../kit/problem.tsx";
import { lacks } from "../../shell/me.ts";
import { operators } from "../../words/operators.ts";
import { GIVEN, ROLES } from "./roles.ts";

type Key = Schemas["Key"];

export function Keys() {
  const text = operators.admin.keys;
  const found = useLoad("keys", (signal) => call("GET /api/v1/keys", { query: { limit: 200 }, signal }));
  const made = useSignal<Schemas["IssuedKey"] | undefined>(undefined);
  const revoking = useSignal<Key | undefined>(undefined);
  const why = lacks("keys:admin");
  if (made.value)
    return (
      <Issued
        issued={made.value}
        onKept={() => {
          made.value = undefined;
          found.reload();
        }}
      />
    );
  const items = found.data.value?.items;
  return (
    <div class="cards">
      <Create
        why={why}
        onMade={(key) => {
          made.value = key;
        }}
      />
      {items === undefined ? (
        found.error.value === undefined ? (
          <Loading rows={4} onStop={found.stop} />
        ) : (
          <Problem error={found.error.value} onRetry={found.reload} />
        )
      ) : items.length === 0 ? (
        <Empty title={text.none}>
          <p>{text.noneText}</p>
        </Empty>
      ) : (
        <div class="scroller">
          <Table
            items={items}
            onRevoke={(key) => {
              revoking.value = key;
            }}
          />
        </div>
      )}
      {revoking.value && (
        <Revoke
          shown={revoking.value}
          onClose={() => {
            revoking.value = undefined;
            found.reload();
          }}
        />
      )}
    </div>
  );
}

function Table({ items, onRevoke }: { items: Key[]; onRevoke: (key: Key) => void }) {
  const { columns, state } = operators.admin.keys;
  return (
    <table class="ops-table">
      <caption class="hidden">{operators.admin.parts.keys}</caption>
      <thead>
        <tr>
          <th scope="col">{columns.name}</th>
          <th scope="col">{columns.roles}</th>
          <th scope="col">{columns.made}</th>
          <th scope="col">{columns.used}</th>
          <th scope="col">{columns.ends}</th>
          <th scope="col">
            <span class="hidden">{columns.actions}</span>
          </th>
        </tr>
      </thead>
      <tbody>
        {items.map((one) => (
          <tr key={one.key_id}>
            <td>
              <strong>
                <Foreign text={one.name} />
              </strong>
              <div class="soft small">
                <code>{one.prefix}</code>
              </div>
            </td>
            <td>
              <Foreign text={one.roles.join(", ")} />
              {one.scopes.length > 0 && <div class="soft small">{one.scopes.join(", ")}</div>}
            </td>
            <td>
              <Moment at={one.created_at} />
            </td>
            <td>
              {one.last_used_at === null ? <span class="soft">{state.never}</span> : <Moment at={one.last_used_at} />}
            </td>
            <td>
              {one.revoked_at !== null ? (
                <span class="state small" data-group="stopped">
                  {state.revoked}
                </span>
              ) : one.expires_at === null ? (
                <span class="soft">{state.never}</span>
              ) : (
                <Moment at={one.expires_at} />
              )}
            </td>
            <td class="end">
              {one.revoked_at === null && (
                <button type="button" class="danger" onClick={() => onRevoke(one)}>
                  {operators.admin.keys.revoke}
                </button>
              )}
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function Create({ why, onMade }: { why: string | undefined; onMade: (key: Schemas["IssuedKey"]) => void }) {
  const text = operators.admin.keys;
  const name = useSignal("");
  const roles = useSignal<readonly string[]>(["viewer"]);
  const scopes = useSignal<readonly string[]>([]);
  const days = useSignal("90");
  const error = useSignal<unknown>(undefined);
  const busy = useSignal(false);
  const given = [...new Set(roles.value.flatMap((role) => GIVEN[role] ?? []))].sort();
  const toggle = (list: readonly string[], one: string) =>
    list.includes(one) ? list.filter((other) => other !== one) : [...list, one];
  const send = async (event: Event) => {
    event.preventDefault();
    busy.value = true;
    error.value = undefined;
    try {
      const expires_seconds = days.value ? Number(days.value) * 86_400 : null;
      const body = { name: name.value.trim(), roles: roles.value, scopes: scopes.value, expires_seconds };
      onMade(await call("POST /api/v1/keys", { body: body as never }));
    } catch (caught) {
      error.value = caught;
    } finally {
      busy.value = false;
    }
  };
  return (
    <details class="create">
      <summary>{text.create}</summary>
      <form class="form" onSubmit={send}>
        <label>
          <span>{text.name}</span>
          <input
            required
            maxLength={200}
            value={name.value}
            onInput={(event) => (name.value = event.currentTarget.value)}
          />
        </label>
        <fieldset>
          <legend>{text.roles}</legend>
          <div class="boxes">
            {ROLES.map((role) => (
              <label key={role} class="check">
                <input
                  type="checkbox"
                  checked={roles.value.includes(role)}
                  onChange={() => {
                    roles.value = toggle(roles.value, role);
                    scopes.value = [];
                  }}
                />
                {role}
              </label>
            ))}
          </div>
        </fieldset>
        <fieldset>
          <legend>{text.scopes}</legend>
          <p class="soft small">{text.scopesHint}</p>
          <div class="boxes">
            {given.map((one) => (
              <label key={one} class="check">
                <input
                  type="checkbox"
                  checked={scopes.value.includes(one)}
                  onChange={() => (scopes.value = toggle(scopes.value, one))}
                />
                <code>{one}</code>
              </label>
            ))}
          </div>
        </fieldset>
        <label>
          <span>{text.expiry}</span>
          <select value={days.value} onChange={(event) => (days.value = event.currentTarget.value)}>
            {Object.entries(text.expiries).map(([value, label]) => (
              <option key={value} value={value}>
                {label}
              </option>
            ))}
          </select>
        </label>
        {error.value !== undefined && <Problem error={error.value} />}
        <CopyAs doing={createDoing(name.value.trim(), roles.value, scopes.value, days.value)} />
        <p class="buttons">
          <button class="main" disabled={why !== undefined || busy.value || roles.value.length === 0} type="submit">
            {text.create}
          </button>
          {why !== undefined && <span class="soft">{why}</span>}
        </p>
      </form>
    </details>
  );
}

export function createDoing(name: string, roles: readonly string[], scopes: readonly string[], days: string): Doing {
  const expires_seconds = days ? Number(days) * 86_400 : undefined;
  const each = (flag: string, all: readonly string[]) => all.flatMap((one) => [flag, one]);
  const ends = days ? ["--expires-days", days] : [];
  const given = { scopes: scopes.length > 0 ? scopes : undefined, expires_seconds };
  return {
    command: ["keys", "create", name, ...each("--role", roles), ...each("--scope", scopes), ...ends],
    method: "POST",
    path: "/api/v1/keys",
    body: { name, roles, ...given },
    python: ["keys.create", [name, roles], given],
  };
}

function Issued({ issued, onKept }: { issued: Schemas["IssuedKey"]; onKept: () => void }) {
  const text = operators.admin.keys;
  return (
    <div class="secret" role="status">
      <h2>{text.issued}</h2>
      <p>{text.once}</p>
      <p>
        <code class="key">{issued.key}</code> <CopyButton text={issued.key} />
      </p>
      <p class="buttons">
        <button type="button" class="main" onClick={onKept}>
          {text.kept}
        </button>
      </p>
    </div>
  );
}

function Revoke({ shown, onClose }: { shown: Key; onClose: () => void }) {
  const text = operators.admin.keys;
  const error = useSignal<unknown>(undefined);
  const opened = useSignal(performance.now());
  const revoke = async () => {
    if (performance.now() - opened.value < 300) return; // a click that was meant for what stood here before
    try {
      await call("DELETE /api/v1/keys/{key_id}", { path: { key_id: shown.key_id } });
      onClose();
    } catch (caught) {
      error.value = caught;
    }
  };
  return (
    <Dialog title={text.revokeTitle(shown.name)} onClose={onClose}>
      <p>{text.revokeText}</p>
      <CopyAs
        doing={{
          command: ["keys", "revoke", shown.key_id],
          method: "DELETE",
          path: `/api/v1/keys/${encodeURIComponent(shown.key_id)}`,
          python: ["keys.revoke", [shown.key_id], {}],
        }}
      />
      {error.value !== undefined && <Problem error={error.value} />}
      <p class="buttons">
        <button type="button" class="main danger" onClick={revoke}>
          {text.revoke}
        </button>
      </p>
    </Dialog>
  );
}
