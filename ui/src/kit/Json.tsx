// A value as a tree: text alone, closed where it is deep or long, so that no value freezes the page.
import { useSignal } from "@preact/signals";
import { createContext } from "preact";
import { useContext } from "preact/hooks";
import { Exact, print } from "../api/exact.ts";
import { number, words } from "../words/en.ts";
import { AssetValue } from "./Asset.tsx";
import { assetOf } from "./assets.ts";
import { CopyButton, Foreign } from "./basics.tsx";
import { holds, type Path, pointerOf, templateOf } from "./paths.ts";
import { cut, safeHref } from "./text.ts";

const DEPTH = 2;
const CHILDREN = 200;
const STRING = 2000;
const STEP = 100;

/** What is looked for in the value, in small letters; empty: nothing. */
const Wanted = createContext("");

/** A value with more letters than this has a search. */
const SEARCHED = 400;

interface Given {
  value: unknown;
  copy?: boolean;
  /** How templates name the value, such as `charge` or `inputs`: then each place of it can be copied as a template. */
  name?: string | undefined;
}

export function Json({ value, copy = false, name }: Given) {
  const raw = useSignal(false);
  const wanted = useSignal("");
  if (!copy) return <Shown value={value} name={name} wanted="" />;
  const text = print(value);
  const large = text.length > SEARCHED && value !== null && typeof value === "object";
  return (
    <div class="json">
      <div class="json-tools">
        {large && (
          <input
            type="search"
            aria-label={words.json.search}
            placeholder={words.json.search}
            value={wanted.value}
            onInput={(event) => (wanted.value = event.currentTarget.value)}
          />
        )}
        {large && (
          <button type="button" class="quiet" aria-pressed={raw.value} onClick={() => (raw.value = !raw.value)}>
            {words.json.raw}
          </button>
        )}
        <CopyButton text={text} label={words.json.copy} />
      </div>
      {raw.value ? (
        <pre class="json-raw">
          <Foreign text={text} />
        </pre>
      ) : (
        <Wanted.Provider value={wanted.value.trim().toLowerCase()}>
          <Value value={value} depth={0} path={[]} name={name} />
        </Wanted.Provider>
      )}
    </div>
  );
}

function Shown({ value, name, wanted }: { value: unknown; name: string | undefined; wanted: string }) {
  return (
    <div class="json">
      <Wanted.Provider value={wanted}>
        <Value value={value} depth={0} path={[]} name={name} />
      </Wanted.Provider>
    </div>
  );
}

interface ValueGiven {
  value: unknown;
  depth: number;
  path: Path;
  name: string | undefined;
}

function Value({ value, depth, path, name }: ValueGiven) {
  if (value instanceof Exact) return <span class="j-number">{value.text}</span>;
  if (value === null) return <span class="j-null">{String(value)}</span>;
  if (typeof value === "string") return <Text text={value} />;
  if (typeof value === "number") return <span class="j-number">{String(value)}</span>;
  if (typeof value === "boolean") return <span class="j-bool">{String(value)}</span>;
  if (typeof value !== "object") return null;
  const asset = assetOf(value);
  if (asset) return <AssetValue asset={asset} path={path} />;
  return <Branch value={value} depth={depth} path={path} name={name} />;
}

function Text({ text }: { text: string }) {
  const whole = useSignal(false);
  if (text === "***") return <span class="masked">{words.json.masked}</span>;
  if (text.length <= STRING || whole.value)
    return (
      <>
        <Foreign text={`"${text}"`} className="j-text" /> <Link text={text} />
      </>
    );
  return (
    <>
      <Foreign text={`"${cut(text, STRING)}`} className="j-text" />{" "}
      <button type="button" class="quiet" onClick={() => (whole.value = true)}>
        {words.json.all} ({words.json.characters(text.length)})
      </button>
    </>
  );
}

/** An address in a value leads out only after it was said where to. */
function Link({ text }: { text: string }) {
  const asked = useSignal(false);
  const to = text.length <= STRING ? safeHref(text) : undefined;
  if (to === undefined) return null;
  const host = new URL(to).host;
  return asked.value ? (
    <a href={to} target="_blank" rel="noopener noreferrer nofollow">
      {words.json.leave(host)}
    </a>
  ) : (
    <button type="button" class="quiet j-link" onClick={() => (asked.value = true)}>
      {words.json.link(host)}
    </button>
  );
}

/** The name of an entry; pressed, it offers what can be copied of it. */
function Entry({ value, depth, path, name }: ValueGiven) {
  const open = useSignal(false);
  const last = path.at(-1)!;
  return (
    <li>
      <button type="button" class="j-key" aria-expanded={open.value} onClick={() => (open.value = !open.value)}>
        <Foreign text={typeof last === "number" ? number(last) : last} />
      </button>
      <span class="soft">: </span>
      {open.value && (
        <span class="j-ways">
          <CopyButton text={print(value)} label={words.json.copy} />
          <CopyButton text={pointerOf(path)} label={words.json.copyPath} />
          {name !== undefined && <CopyButton text={templateOf(name, path)} label={words.json.copyTemplate} />}
        </span>
      )}
      <Value value={value} depth={depth} path={path} name={name} />
    </li>
  );
}

function Branch({ value, depth, path, name }: ValueGiven & { value: object }) {
  const wanted = useContext(Wanted);
  const entries = Array.isArray(value) ? value : Object.keys(value);
  const count = entries.length;
  const open = useSignal(depth < DEPTH && count <= CHILDREN);
  const shown = useSignal(STEP);
  const [left, right] = Array.isArray(value) ? ["[", "]"] : ["{", "}"];
  if (count === 0) return <span class="j-empty">{left + right}</span>;
  const all: Path = Array.isArray(value) ? Array.from({ length: count }, (_, index) => index) : (entries as string[]);
  const held = value as Readonly<Record<string | number, unknown>>;
  const fitting = wanted ? all.filter((key) => holds(key, held[key], wanted)) : all;
  const isOpen = open.value || wanted !== "";
  return (
    <span class="j-branch">
      <button type="button" class="fold" aria-expanded={isOpen} onClick={() => (open.value = !open.value)}>
        {left}
        {!isOpen && (
          <span class="soft">
            {" "}
            {words.json.entries(count)} {right}
          </span>
        )}
      </button>
      {isOpen && (
        <>
          <ul>
            {fitting.slice(0, shown.value).map((key) => (
              <Entry key={key} value={held[key]} depth={depth + 1} path={[...path, key]} name={name} />
            ))}
            {fitting.length > shown.value && (
              <li>
                <button type="button" class="quiet" onClick={() => (shown.value += STEP * 10)}>
                  {words.json.more(fitting.length - shown.value)}
                </button>
              </li>
            )}
          </ul>
          {right}
        </>
      )}
    </span>
  );
}
