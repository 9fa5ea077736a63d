// Settings of this browser, and the sessions of whoever is logged in.
import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { call, type Schemas } from "../../api/call.ts";
import { useLoad } from "../../api/load.ts";
import { Empty, Foreign, Loading, Moment } from "../../kit/basics.tsx";
import { Problem } from "../../kit/problem.tsx";
import { cut } from "../../kit/text.ts";
import { keepZone, zone } from "../../kit/time.ts";
import { href } from "../../router.ts";
import { boot } from "../../shell/boot.ts";
import { density, keepDensity } from "../../shell/density.ts";
import { keepLetters, letters } from "../../shell/keys.ts";
import { keepNotices, notices } from "../../shell/notices.ts";
import { keepTheme, type Theme, theme } from "../../shell/theme.ts";
import { words } from "../../words/en.ts";
import { operators } from "../../words/operators.ts";

const ZONES: readonly string[] = Intl.supportedValuesOf("timeZone");

export default function Settings() {
  const text = operators.settings;
  useEffect(() => {
    document.title = `${text.title} · ${words.product}`;
  }, []);
  return (
    <section class="screen narrow">
      <header class="head">
        <h1>{text.title}</h1>
      </header>
      <p class="soft">{text.here}</p>
      <form class="form" onSubmit={(event) => event.preventDefault()}>
        <Select
          label={words.top.theme}
          value={theme.value}
          choices={words.top.themes}
          onChoose={(value) => keepTheme(value as Theme)}
        />
        <Select label={text.zone} value={zone.value} choices={words.top.times} more={ZONES} onChoose={keepZone} />
        <Select
          label={text.density}
          value={density.value}
          choices={text.densities}
          onChoose={(value) => keepDensity(value === "compact" ? "compact" : "comfortable")}
        />
        <label class="check">
          <input
            type="checkbox"
            checked={letters.value}
            onChange={(event) => keepLetters(event.currentTarget.checked)}
          />
          {words.help.letters}
        </label>
        <Notices />
      </form>
      <h2>{text.sessions}</h2>
      {boot.value === undefined ? null : boot.value.auth === "open" ? (
        <p class="soft">{words.login.open}</p>
      ) : (
        <Sessions />
      )}
    </section>
  );
}

function Notices() {
  const text = operators.settings;
  const refused = useSignal(false);
  return (
    <>
      <label class="check">
        <input
          type="checkbox"
          checked={notices.value}
          onChange={async (event) => {
            const field = event.currentTarget;
            refused.value = !(await keepNotices(field.checked));
            field.checked = notices.value;
          }}
        />
        {text.notices}
      </label>
      {refused.value && (
        <p class="soft" role="status">
          {text.noNotices}
        </p>
      )}
    </>
  );
}

interface Chosen {
  label: string;
  value: string;
  choices: Readonly<Record<string, string>>;
  more?: readonly string[];
  onChoose: (value: string) => void;
}

function Select({ label, value, choices, more, onChoose }: Chosen) {
  return (
    <label>
      <span>{label}</span>
      <select value={value} onChange={(event) => onChoose(event.currentTarget.value)}>
        {Object.entries(choices).map(([name, shown]) => (
          <option key={name} value={name}>
            {shown}
          </option>
        ))}
        {more && (
          <optgroup label={operators.settings.zones}>
            {more.map((name) => (
              <option key={name} value={name}>
                {name}
              </option>
            ))}
          </optgroup>
        )}
      </select>
    </label>
  );
}

function Sessions() {
  const text = operators.settings;
  const found = useLoad("sessions", (signal) => call("GET /api/v1/sessions", { query: { limit: 100 }, signal }));
  const items = found.data.value?.items;
  if (items === undefined)
    return found.error.value === undefined ? (
      <Loading rows={2} onStop={found.stop} />
    ) : (
      <Problem error={found.error.value} onRetry={found.reload} />
    );
  if (items.length === 0) return <Empty title={text.noSessions} />;
  const end = async (one: Schemas["Session"]) => {
    await call("DELETE /api/v1/sessions/{session_id}", { path: { session_id: one.session_id } }).catch(() => {});
    if (one.current) location.replace(href("/login"));
    else found.reload(); // what is still there was not ended
  };
  return (
    <div class="scroller">
      <table class="ops-table">
        <caption class="hidden">{text.sessions}</caption>
        <thead>
          <tr>
            <th scope="col">{text.agent}</th>
            <th scope="col">{text.seen}</th>
            <th scope="col">{text.ends}</th>
            <th scope="col">
              <span class="hidden">{text.end}</span>
            </th>
          </tr>
        </thead>
        <tbody>
          {items.map((one) => (
            <tr key={one.session_id}>
              <td>
                {one.current && <strong>{text.current} </strong>}
                <Foreign text={cut(one.agent, 120)} className="small" />
              </td>
              <td>
                <Moment at={one.seen_at} />
              </td>
              <td>
                <Moment at={one.expires_at} />
              </td>
              <td class="end">
                <button type="button" onClick={() => void end(one)}>
                  {text.end}
                </button>
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
