// The frame around every screen: rail, top bar, banners, and the error of a screen that broke.
import { signal, useSignal } from "@preact/signals";
import { Component, type ComponentChildren, type ComponentType } from "preact";
import { useEffect, useLayoutEffect } from "preact/hooks";
import { call, silentSince } from "../api/call.ts";
import { pulse } from "../api/load.ts";
import { Dialog, Foreign, Icon } from "../kit/basics.tsx";
import { keepZone, shownTime, zone } from "../kit/time.ts";
import { go, href, place } from "../router.ts";
import { number, words } from "../words/en.ts";
import { boot, staleBuild } from "./boot.ts";
import "./density.ts";
import { endsAt, watchEnd } from "./ending.ts";
import { keepLetters, letters, onKeys } from "./keys.ts";
import { me, readMe } from "./me.ts";
import { watchHidden } from "./notices.ts";
import { overview, readOverview } from "./overview.ts";
import { keepTheme, type Theme, theme } from "./theme.ts";

const HOME = "M2.500 7.500L8 2.500l5.500 5M4 6.500v7h3v-4h2v4h3v-7";
const WORKFLOWS = "M2.500 3h4v4h-4zM9.500 9h4v4h-4zM4.500 7v4h5";
const RUNS = "M2.500 4h.1M2.500 8h.1M2.500 12h.1M5.500 4h8M5.500 8h8M5.500 12h8";

const LETTERS = "M2.500 4h11v8h-11zM2.500 4.500l5.500 4 5.500-4M6 14.500l4 0";
const APPROVALS =
  "M5.500 8.500l2 2 4-4.500M3 2.500h10a.5.5 0 0 1 .5.5v10a.5.5 0 0 1-.5.5H3a.5.5 0 0 1-.5-.5V3a.5.5 0 0 1 .5-.5";
const WORKERS = "M2.500 3.500h11v4h-11zM2.500 9.500h11v4h-11zM5 5.500h.1M5 11.500h.1";
const TRIGGERS = "M9 2L3.500 9h4L7 14l5.500-7h-4z";
const AGENTS = "M5 5.500h6a2 2 0 0 1 2 2v3a2 2 0 0 1-2 2H5a2 2 0 0 1-2-2v-3a2 2 0 0 1 2-2M8 2.500v3M6 9h.1M10 9h.1";
const ASSETS = "M4 2.500h5l3 3v8H4zM9 2.500v3h3";
const COSTS =
  "M8 2.500a5.500 5.500 0 1 0 0 11 5.500 5.500 0 1 0 0-11M8 5v6M9.800 6.300C9 5.700 6.400 5.600 6.400 7s3.300.7 3.300 2.100-2.700 1.300-3.500.6";
const ADMIN = "M8 2l5 2v4c0 3-2 5-5 6-3-1-5-3-5-6V4z";
const SETTINGS = "M2.500 5h6M11.500 5h2M2.500 11h2M7.500 11h6M10 3.500v3M6 9.500v3";
const SEARCH = "M7 2.500a4.500 4.500 0 1 0 0 9 4.500 4.500 0 1 0 0-9M10.500 10.500l3 3";

const MORE = "M3 8h.1M8 8h.1M13 8h.1";

const isMac = /Mac|iPhone|iPad/.test(navigator.userAgent);

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
  useEffect(watchHidden, []);
  useCounts();
  useLayoutEffect(
    () =>
      onKeys({
        "?": () => {
          help.value = true;
        },
        "g h": () => go(href("/")),
        "g r": () => go(href("/runs")),
        "g a": () => go(href("/approvals")),
        "g d": () => go(href("/dead-letters")),
        "g w": () => go(href("/workflows")),
        "g q": () => go(href("/workers")),
        "g t": () => go(href("/triggers")),
      }),
    [],
  );
  return (
    <>
      <a class="skip" href="#content">
        {words.skip}
      </a>
      <header class="top">
        <a class="brand" href={href("/")}>
          <img src={href(`/assets/${document.documentElement.dataset.build}/icon.svg`)} alt="" width={24} height={24} />
          <span>{words.product}</span>
        </a>
        {place.value.path !== "/login" && <FindButton />}
        <div class="tools">
          <Who />
          <Choice
            label={words.top.time}
            value={zone.value}
            choices={zone.value in words.top.times ? words.top.times : { ...words.top.times, [zone.value]: zone.value }}
            onChoose={keepZone}
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
      {place.value.path !== "/login" && (
        <nav class="rail" aria-label={words.nav.label}>
          <Rail path="/" icon={HOME} label={words.nav.home} />
          <Rail path="/runs" icon={RUNS} label={words.nav.runs} />
          <Rail path="/workflows" icon={WORKFLOWS} label={words.nav.workflows} />
          <Rail path="/approvals" icon={APPROVALS} label={words.nav.approvals} count={overview.value?.approvals} />
          <More onHelp={() => (help.value = true)} />
        </nav>
      )}
      <Banners />
      <main id="content" tabIndex={-1}>
        <Guard path={place.value.path}>{children}</Guard>
      </main>
      {place.value.path !== "/login" && <Finder />}
      {help.value && <Help onClose={() => (help.value = false)} />}
    </>
  );
}

const BEHIND = [
  ...["/dead-letters", "/workers", "/queues", "/triggers", "/schedules"],
  ...["/agents", "/assets", "/costs", "/admin", "/settings"],
];

/** The screens that a phone has no room for in one line: they open above it. Elsewhere they stand with the others. */
function More({ onHelp }: { onHelp: () => void }) {
  const open = useSignal(false);
  const where = place.value.path;
  useEffect(() => {
    open.value = false;
  }, [where]);
  useEffect(() => {
    if (!open.value) return;
    const leave = (event: Event) => {
      const isInside = event.target instanceof Element && event.target.closest(".more") !== null;
      if (event instanceof KeyboardEvent ? event.key === "Escape" : !isInside) open.value = false;
    };
    document.addEventListener("pointerdown", leave);
    document.addEventListener("keydown", leave);
    return () => {
      document.removeEventListener("pointerdown", leave);
      document.removeEventListener("keydown", leave);
    };
  }, [open.value]);
  const letters = overview.value?.dead_letters;
  const isHere = BEHIND.some((one) => where === one || where.startsWith(`${one}/`));
  return (
    <div class="more">
      <button
        type="button"
        class="more-button"
        aria-expanded={open.value}
        data-here={isHere || undefined}
        onClick={() => (open.value = !open.value)}
      >
        <Icon path={MORE} />
        <span>{words.nav.more}</span> {letters?.total ? <b class="number">{number(letters.total)}</b> : null}
      </button>
      <div class={open.value ? "more-screens open" : "more-screens"}>
        <Rail path="/dead-letters" icon={LETTERS} label={words.nav.letters} count={letters} />
        <Rail path="/workers" also="/queues" icon={WORKERS} label={words.nav.workers} />
        <Rail path="/triggers" also="/schedules" icon={TRIGGERS} label={words.nav.triggers} />
        <Rail path="/agents" icon={AGENTS} label={words.nav.agents} />
        <Rail path="/assets" icon={ASSETS} label={words.nav.assets} />
        <Rail path="/costs" icon={COSTS} label={words.nav.costs} />
        <Rail path="/admin/keys" also="/admin" icon={ADMIN} label={words.nav.admin} />
        <Rail path="/settings" icon={SETTINGS} label={words.nav.settings} />
        <button type="button" class="more-help" onClick={onHelp}>
          {words.top.keys}
        </button>
      </div>
    </div>
  );
}

interface Led {
  path: string;
  also?: string;
  icon: string;
  label: string;
  /** How many wait there. */
  count?: { readonly total: number; readonly capped: boolean } | null | undefined;
}

function Rail({ path, also = path, icon, label, count }: Led) {
  const at = place.value.path;
  const isBelow = at.startsWith(`${path}/`) || at === also || at.startsWith(`${also}/`);
  const isHere = at === path || (path !== "/" && isBelow);
  const waiting = count?.total ? `${number(count.total)}${count.capped ? "+" : ""}` : "";
  return (
    <a href={href(path)} aria-current={isHere ? "page" : undefined}>
      <Icon path={icon} />
      <span>{label}</span> {waiting && <b class="number">{waiting}</b>}
    </a>
  );
}

const COUNT_SECONDS = 15;

/** The counts beside the screens; the first screen reads them by itself. */
function useCounts(): void {
  const known = boot.value?.auth === "open" || me.value !== undefined;
  const isRead = known && place.value.path !== "/" && place.value.path !== "/login";
  useEffect(() => {
    if (!isRead) return;
    const read = async () => void (await readOverview("24h"));
    if (!overview.peek()) void read().catch(() => {}); // the screen itself says when nobody answers
    return pulse(COUNT_SECONDS, read, () => {}).stop;
  }, [isRead]);
}

/** The search: loaded when it is first asked for. */
const isFinding = signal(false);

function beginToFind(): void {
  isFinding.value = true;
}

function Finder() {
  const found = useSignal<ComponentType<{ onClose: () => void }> | undefined>(undefined);
  const isOpen = isFinding.value;
  useEffect(() => {
    if (isOpen && !found.value)
      import("./Palette.tsx").then(
        (made) => {
          found.value = made.default;
        },
        () => {
          isFinding.value = false; // the banner says that the server does not answer
        },
      );
  }, [isOpen]);
  useEffect(() => {
    const press = (event: KeyboardEvent) => {
      if (event.key.toLowerCase() !== "k" || !(event.metaKey || event.ctrlKey) || event.altKey || event.shiftKey)
        return;
      if (document.querySelector("dialog[open]")) return;
      event.preventDefault();
      beginToFind();
    };
    document.addEventListener("keydown", press);
    return () => document.removeEventListener("keydown", press);
  }, []);
  const Found = found.value;
  return isOpen && Found ? (
    <Found
      onClose={() => {
        isFinding.value = false;
      }}
    />
  ) : null;
}

function FindButton() {
  return (
    <button type="button" class="find" onClick={beginToFind} aria-keyshortcuts="Meta+K Control+K">
      <Icon path={SEARCH} />
      <span>{words.top.search}</span>
      <kbd>{isMac ? words.top.searchKeys.mac : words.top.searchKeys.other}</kbd>
    </button>
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
      {endsAt.value !== undefined && (
        <p class="banner" data-group="waits">
          {words.login.ends(shownTime(endsAt.value, zone.value, endsAt.value))}{" "}
          <a class="button" href={href("/login", { next: place.value.path })}>
            {words.login.again}
          </a>
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
  const mode = boot.value?.auth;
  useEffect(() => {
    if (mode === undefined || mode === "open" || place.peek().path === "/login") return;
    void readMe().then(watchEnd);
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
