// Everything that happened to the run, event by event.
import { useComputed, useSignal } from "@preact/signals";
import { useRef } from "preact/hooks";
import { Foreign } from "../../kit/basics.tsx";
import { Json } from "../../kit/Json.tsx";
import { clockWithMilliseconds, exactTime, zone } from "../../kit/time.ts";
import { useWindow } from "../../kit/window.ts";
import { change, place } from "../../router.ts";
import { number, words } from "../../words/en.ts";
import type { RunEvent, RunStore } from "./store.ts";

const ROW = 36;

export function Journal({ store }: { store: RunStore }) {
  const text = words.run.journal;
  const oldest = place.value.query.get("order") === "oldest";
  const wanted = place.value.query.get("q") ?? "";
  const shown = useComputed(() => {
    const query = place.value.query;
    const filter = (query.get("q") ?? "").toLowerCase();
    const found = store.events.value.filter(
      (event) => !filter || event.type.includes(filter) || (event.node ?? "").toLowerCase().includes(filter),
    );
    return query.get("order") === "oldest" ? found : found.toReversed();
  });
  return (
    <>
      <div class="bar">
        <label class="grow">
          <span class="hidden">{text.filter}</span>
          <input
            type="search"
            placeholder={text.filterHint}
            value={wanted}
            onInput={(event) => change({ q: event.currentTarget.value }, true)}
          />
        </label>
        <button type="button" onClick={() => change({ order: oldest ? undefined : "oldest" })}>
          {oldest ? text.oldest : text.newest}
        </button>
        <span class="soft number">{text.count(shown.value.length, store.events.value.length)}</span>
      </div>
      {shown.value.length === 0 ? <p class="nothing soft">{text.empty}</p> : <Events events={shown.value} />}
    </>
  );
}

function Events({ events }: { events: readonly RunEvent[] }) {
  const list = useRef<HTMLOListElement>(null);
  const seen = useWindow(list, events.length, ROW, ROW);
  const open = useSignal<ReadonlySet<number>>(new Set());
  const { from, to } = seen.value;
  const toggle = (seq: number) => {
    const next = new Set(open.value);
    if (!next.delete(seq)) next.add(seq);
    open.value = next;
  };
  return (
    <ol class="events" ref={list} aria-label={words.run.journal.label}>
      <li class="gap" aria-hidden="true" style={{ height: `${from * ROW}px` }} />
      {events.slice(from, to).map((event) => (
        <Row key={event.seq} event={event} open={open.value.has(event.seq)} onToggle={() => toggle(event.seq)} />
      ))}
      <li class="gap" aria-hidden="true" style={{ height: `${(events.length - to) * ROW}px` }} />
    </ol>
  );
}

function Row({ event, open, onToggle }: { event: RunEvent; open: boolean; onToggle: () => void }) {
  const text = words.run.journal;
  return (
    <li class="event">
      <div class="event-line">
        <button
          type="button"
          class="seq number"
          aria-expanded={open}
          aria-label={text.open(event.seq)}
          onClick={onToggle}
        >
          {number(event.seq)}
        </button>
        <time
          class="number soft"
          dateTime={new Date(event.at * 1000).toISOString()}
          title={exactTime(event.at, zone.value)}
        >
          {clockWithMilliseconds(event.at, zone.value)}
        </time>
        <code class="type" data-type={event.type.slice(event.type.indexOf(".") + 1)}>
          {event.type}
        </code>
        {event.node ? (
          <button type="button" class="quiet node" onClick={() => change({ node: event.node })}>
            <Foreign text={event.node} />
          </button>
        ) : (
          <span />
        )}
        <span class="soft said">
          {event.attempt !== undefined && event.attempt > 1 && text.attempt(event.attempt)}{" "}
          {typeof event.item === "number" && text.item(event.item)}
        </span>
      </div>
      {open && (
        <div class="event-data">
          {event.cause && (
            <p class="soft">
              {text.cause} <Foreign text={event.cause} />
            </p>
          )}
          <Json value={event.data} />
        </div>
      )}
    </li>
  );
}
