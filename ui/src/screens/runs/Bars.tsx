// When the runs of the list were made, or ended: bars to drag over, which sets the times of the filter.
import { useSignal } from "@preact/signals";
import { useRef } from "preact/hooks";
import { call, now } from "../../api/call.ts";
import { usePoll } from "../../api/poll.ts";
import { groupOf } from "../../kit/states.ts";
import { readSince, shownMinute, zone } from "../../kit/time.ts";
import { change } from "../../router.ts";
import { runs as text } from "../../words/runs.ts";
import { type Filter, toConditions } from "./filter.ts";

const POLL_SECONDS = 15;
const COUNT = 60;
const DAY_SECONDS = 86_400;
const ORDER = ["good", "undone", "stopped", "waits", "busy", "bad"];

interface Bar {
  readonly at: number;
  readonly groups: ReadonlyMap<string, number>;
  readonly total: number;
}

const iso = (seconds: number) => new Date(Math.floor(seconds) * 1000).toISOString().replace(".000", "");

const momentOf = (given: string): number => {
  const found = readSince(given, now());
  const asNumber = Number(found);
  return Number.isFinite(asNumber) ? asNumber : Date.parse(found) / 1000;
};

async function read(filter: Filter, signal: AbortSignal) {
  const end = filter.until ? momentOf(filter.until) : now();
  const begin = filter.since ? momentOf(filter.since) : end - DAY_SECONDS;
  if (!(end - begin > 1)) return undefined;
  const bucket = Math.max(1, Math.ceil((end - begin) / COUNT));
  const conditions = toConditions(filter, now());
  const times = filter.byEnd
    ? { ended_since: String(begin), ended_until: filter.until ? String(end) : undefined }
    : { since: String(begin), until: filter.until ? String(end) : undefined };
  const query = { ...conditions, ...times, group: "state" as const, bucket };
  const found = await call("GET /api/v1/runs/counts", { query, signal });
  const known = new Map((found.buckets ?? []).map((one) => [Math.round(one.at / bucket), one]));
  const bars: Bar[] = [];
  for (let place = Math.floor(begin / bucket); place * bucket < end; place += 1) {
    const groups = new Map<string, number>();
    for (const one of known.get(place)?.groups ?? []) {
      const group = groupOf(one.name ?? "");
      groups.set(group, (groups.get(group) ?? 0) + one.count);
    }
    bars.push({ at: place * bucket, groups, total: known.get(place)?.count ?? 0 });
  }
  return { bars, bucket, total: found.total, capped: found.capped };
}

export function Bars({ filter }: { filter: Filter }) {
  const plot = useRef<HTMLDivElement>(null);
  const from = useSignal(-1);
  const to = useSignal(-1);
  const found = usePoll(JSON.stringify(filter), POLL_SECONDS, (signal) => read(filter, signal));
  const data = found.data.value;
  if (!data || data.bars.length === 0) return <div class="histogram" aria-hidden="true" />;
  const { bars, bucket } = data;
  const most = Math.max(1, ...bars.map((one) => one.total));
  const first = bars[0]?.at ?? 0;
  const end = first + bucket * bars.length;
  const show = (at: number) => shownMinute(at, zone.value, end);
  const indexAt = (event: PointerEvent) => {
    const box = plot.current?.getBoundingClientRect();
    if (!box?.width) return 0;
    return Math.max(0, Math.min(bars.length - 1, Math.floor(((event.clientX - box.left) / box.width) * bars.length)));
  };
  const begin = (event: PointerEvent) => {
    if (event.button !== 0) return;
    plot.current?.setPointerCapture(event.pointerId);
    from.value = to.value = indexAt(event);
  };
  const finish = () => {
    const [low, high] = [Math.min(from.value, to.value), Math.max(from.value, to.value)];
    from.value = to.value = -1;
    if (low < 0) return;
    change({ since: iso(first + low * bucket), until: iso(first + (high + 1) * bucket) });
  };
  const isChosen = (index: number) =>
    from.value >= 0 && index >= Math.min(from.value, to.value) && index <= Math.max(from.value, to.value);
  return (
    <div class="histogram">
      <p class="hidden">{text.bars.described(data.total, data.capped, show(first), show(end))}</p>
      <div
        ref={plot}
        class="plot brush"
        aria-hidden="true"
        title={text.bars.hint}
        onPointerDown={begin}
        onPointerMove={(event) => {
          if (from.value >= 0) to.value = indexAt(event);
        }}
        onPointerUp={finish}
        onPointerCancel={() => {
          from.value = to.value = -1;
        }}
      >
        {bars.map((one, index) => (
          <div key={one.at} class={isChosen(index) ? "stretch chosen" : "stretch"}>
            {one.total > 0 && (
              <span class="pile" style={{ blockSize: `${Math.max(4, (100 * one.total) / most)}%` }}>
                {ORDER.map((group) => {
                  const count = one.groups.get(group);
                  return count ? <span key={group} data-group={group} style={{ flexGrow: String(count) }} /> : null;
                })}
              </span>
            )}
          </div>
        ))}
      </div>
      <div class="axis soft small number" aria-hidden="true">
        <span>{show(first)}</span>
        <span>{filter.byEnd ? text.bars.labelEnd : text.bars.label}</span>
        <span>{show(end)}</span>
      </div>
    </div>
  );
}
