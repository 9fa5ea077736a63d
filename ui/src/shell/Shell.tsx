// The frame around every screen: rail, top bar, banners, and the error of a screen that broke.
import { signal, useSignal } from "@preact/signals";
import { Component, type ComponentChildren } from "preact";
import { useEffect } from "preact/hooks";
import { call, type Schemas, silentSince } from "../api/call.ts";
import { Dialog, Foreign, Icon } from "../kit/basics.tsx";
import { keepZone, shownTime, type Zone, zone } from "../kit/time.ts";
import { go, href, place } from "../router.ts";
import { words } from "../words/en.ts";
import { boot, staleBuild } from "./boot.ts";
import { keepLetters, letters, onKeys } from "./keys.ts";
import { keepTheme, type Theme, theme } from "./theme.ts";

const RUNS = "M2.500 4h.1M2.500 8h.1M2.500 12h.1M5.500 4h8M5.500 8h8M5.500 12h8";

/** Seconds to the next try after the server went silent; screens that ask again and again say so here. */
export const nextTry = signal<number | undefined>(undefined);

class Guard extends Component<{ children: ComponentChildren; path: string }, { path?: string }> {
  override state: { path?: string } = {};

  override componentDidCatch(): void {
    this.setState({ path: this.props.path });
  }

  override render() {
    if (this.state.path !== this.props.path) return this.props.children;
    return (
      <div class="problem" role="alert">
        <h2>{words.problem.title}</h2>
        <p>{words.problem.broken}</p>
        <button type="button" onClick={() => location.reload()}>
          {words.reload}
        </button>
      </div>
    );
  }
}

export function Shell({ children }: { children: ComponentChildren }) {
  const help = useSignal(false);
  useEffect(
    () =>
      onKeys({
        "?": () => {
          help.value = true;
        },
        "g r": () => go(href("/runs")),
      }),
    [],
  );
  return (
    <>
      <a class="skip" href="#content">
        {words.skip}
      </a>
      <header class="top">
        <a class="brand" href={href("/runs")}>
          <img src={href(`/assets/${document.documentElement.dataset.build}/icon.svg`)} alt="" width={24} height={24} />
          <span>{words.product}</span>
        </a>
        <div class="tools">
          <Who />
          <Choice
            label={words.top.time}
            value={zone.value}
            choices={words.top.times}
            onChoose={(value) => keepZone(value as Zone)}
          />
          <Choice
            label={words.top.theme}
            value={theme.value}
            choices={words.top.themes}
            onChoose={(value) => keepTheme(value as Theme)}
          />
          <button
            type="button"
            class="quiet help"
            aria-label={words.top.keys}
            title={words.top.keys}
            onClick={() => {
              help.value = true;
            }}
          >
            ?
          </button>
        </div>
      </header>
      <nav class="rail" aria-label={words.nav.label}>
        <a href={href("/runs")} aria-current={place.value.path.startsWith("/runs") ? "page" : undefined}>
          <Icon path={RUNS} />
          <span>{words.nav.runs}</span>
        </a>
      </nav>
      <Banners />
      <main id="content" tabIndex={-1}>
        <Guard path={place.value.path}>{children}</Guard>
      </main>
      {help.value && <Help onClose={() => (help.value = false)} />}
    </>
  );
}

function Banners() {
  const since = silentSince.value;
  return (
    <div class="banners" role="status">
      {since !== undefined && (
        <p class="banner" data-group="waits">
          {words.silent(shownTime(since, zone.value, since), nextTry.value)}
        </p>
      )}
      {staleBuild.value && (
        <p class="banner" data-group="busy">
          {words.newVersion}{" "}
          <button type="button" onClick={() => location.reload()}>
            {words.reload}
          </button>
        </p>
      )}
    </div>
  );
}

function Who() {
  const me = useSignal<Schemas["Me"] | undefined>(undefined);
  const mode = boot.value?.auth;
  useEffect(() => {
    if (mode === undefined || mode === "open" || place.peek().path === "/login") return;
    call("GET /api/v1/me").then(
      (found) => {
        me.value = found;
      },
      () => {}, // the screen itself says that nobody is logged in
    );
  }, [mode]);
  if (mode === "open") return <span class="who">{words.top.local}</span>;
  if (!me.value) return null;
  return (
    <>
      <span class="who" title={me.value.roles.join(", ")}>
        <Foreign text={words.top.who(me.value.name, me.value.tenant)} />
      </span>
      <button type="button" class="quiet" onClick={logOut}>
        {words.login.out}
      </button>
    </>
  );
}

async function logOut(): Promise<void> {
  await call("DELETE /api/v1/session").catch(() => {}); // without an answer the banner says so, and the page is left all the same
  location.replace(href("/login"));
}

interface Chosen {
  label: string;
  value: string;
  choices: Readonly<Record<string, string>>;
  onChoose: (value: string) => void;
}

function Choice({ label, value, choices, onChoose }: Chosen) {
  return (
    <select aria-label={label} title={label} value={value} onChange={(event) => onChoose(event.currentTarget.value)}>
      {Object.entries(choices).map(([name, text]) => (
        <option key={name} value={name}>
          {text}
        </option>
      ))}
    </select>
  );
}

function Help({ onClose }: { onClose: () => void }) {
  return (
    <Dialog title={words.help.title} onClose={onClose}>
      <dl class="keys">
        {words.help.rows.map(([keys, what]) => (
          <div key={keys}>
            <dt>
              <kbd>{keys}</kbd>
            </dt>
            <dd>{what}</dd>
          </div>
        ))}
      </dl>
      <label class="check">
        <input type="checkbox" checked={letters.value} onChange={(event) => keepLetters(event.currentTarget.checked)} />
        {words.help.letters}
      </label>
    </Dialog>
  );
}
