// A value as a tree: text alone, closed where it is deep or long, so that no value freezes the page.
import { useSignal } from "@preact/signals";
import { Exact, print } from "../api/exact.ts";
import { number, words } from "../words/en.ts";
import { CopyButton, Foreign } from "./basics.tsx";
import { cut } from "./text.ts";

const DEPTH = 2;
const CHILDREN = 200;
const STRING = 2000;
const STEP = 100;

export function Json({ value, copy = false }: { value: unknown; copy?: boolean }) {
  return (
    <div class="json">
      {copy && <CopyButton text={print(value)} label={words.json.copy} />}
      <Value value={value} depth={0} />
    </div>
  );
}

function Value({ value, depth }: { value: unknown; depth: number }) {
  if (value instanceof Exact) return <span class="j-number">{value.text}</span>;
  if (value === null) return <span class="j-null">{String(value)}</span>;
  if (typeof value === "string") return <Text text={value} />;
  if (typeof value === "number") return <span class="j-number">{String(value)}</span>;
  if (typeof value === "boolean") return <span class="j-bool">{String(value)}</span>;
  if (typeof value !== "object") return null;
  return <Branch value={value} depth={depth} />;
}

function Text({ text }: { text: string }) {
  const whole = useSignal(false);
  if (text === "***") return <span class="masked">{words.json.masked}</span>;
  if (text.length <= STRING || whole.value) return <Foreign text={`"${text}"`} className="j-text" />;
  return (
    <>
      <Foreign text={`"${cut(text, STRING)}`} className="j-text" />{" "}
      <button type="button" class="quiet" onClick={() => (whole.value = true)}>
        {words.json.all} ({words.json.characters(text.length)})
      </button>
    </>
  );
}

function Branch({ value, depth }: { value: object; depth: number }) {
  const entries = Array.isArray(value) ? value : Object.keys(value);
  const count = entries.length;
  const open = useSignal(depth < DEPTH && count <= CHILDREN);
  const shown = useSignal(STEP);
  const [left, right] = Array.isArray(value) ? ["[", "]"] : ["{", "}"];
  if (count === 0) return <span class="j-empty">{left + right}</span>;
  const names: string[] = Array.isArray(value)
    ? Array.from({ length: Math.min(count, shown.value) }, (_, index) => String(index))
    : (entries as string[]).slice(0, shown.value);
  return (
    <span class="j-branch">
      <button type="button" class="fold" aria-expanded={open.value} onClick={() => (open.value = !open.value)}>
        {left}
        {!open.value && (
          <span class="soft">
            {" "}
            {words.json.entries(count)} {right}
          </span>
        )}
      </button>
      {open.value && (
        <>
          <ul>
            {names.map((name) => (
              <li key={name}>
                <Foreign text={Array.isArray(value) ? number(Number(name)) : name} className="j-key" />
                <span class="soft">: </span>
                <Value value={(value as Record<string, unknown>)[name]} depth={depth + 1} />
              </li>
            ))}
            {count > shown.value && (
              <li>
                <button type="button" class="quiet" onClick={() => (shown.value += STEP * 10)}>
                  {words.json.more(count - shown.value)}
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
