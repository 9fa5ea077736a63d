// How many runs started, ended and failed, stretch by stretch: as bars, and the same as a table.
import { Moment } from "../../kit/basics.tsx";
import { shownMinute, zone } from "../../kit/time.ts";
import { change, href, place } from "../../router.ts";
import type { Overview, Span } from "../../shell/overview.ts";
import { number } from "../../words/en.ts";
import { home as text } from "../../words/home.ts";

type Stretch = Overview["buckets"][number];

const sum = (found: readonly Stretch[], name: "started" | "ended" | "failed") =>
  found.reduce((total, one) => total + one[name], 0);

const iso = (seconds: number) => `${new Date(seconds * 1000).toISOString().slice(0, 19)}Z`;

export function Activity({ buckets, span }: { buckets: readonly Stretch[]; span: Span }) {
  const isTable = place.value.query.get("as") === "table";
  return (
    <section class="card activity" aria-labelledby="activity">
      <div class="head">
        <h2 id="activity">{text.activity}</h2>
        <div class="controls">
          <fieldset class="segments">
            <legend class="hidden">{text.span}</legend>
            {Object.entries(text.spans).map(([name, label]) => (
              <label key={name}>
                <input
                  type="radio"
                  name="span"
                  checked={name === span}
                  onChange={() => change({ span: name === "24h" ? undefined : name })}
                />
                <span>{label}</span>
              </label>
            ))}
          </fieldset>
          <button
            type="button"
            class="quiet"
            aria-pressed={isTable}
            onClick={() => change({ as: isTable ? undefined : "table" })}
          >
            {text.table}
          </button>
        </div>
      </div>
      <dl class="figures">
        <Figure name={text.started} count={sum(buckets, "started")} group="busy" />
        <Figure name={text.ended} count={sum(buckets, "ended")} group="good" />
        <Figure name={text.failedRuns} count={sum(buckets, "failed")} group="bad" />
      </dl>
      {isTable ? <Table buckets={buckets} /> : <Bars buckets={buckets} />}
    </section>
  );
}

function Figure({ name, count, group }: { name: string; count: number; group: string }) {
  return (
    <div data-group={group}>
      <dt>
        <span class="swatch" />
        {name}
      </dt>
      <dd class="number">{number(count)}</dd>
    </div>
  );
}

function Bars({ buckets }: { buckets: readonly Stretch[] }) {
  const most = Math.max(1, ...buckets.map((one) => Math.max(one.started, one.ended)));
  const first = buckets[0]?.at ?? 0;
  const step = (buckets[1]?.at ?? first) - first;
  const show = (at: number) => shownMinute(at, zone.value, first + step * buckets.length);
  const high = (count: number) => ({ blockSize: `${count ? Math.max(3, (100 * count) / most) : 0}%` });
  return (
    <div class="bars">
      <span class="soft small number most">{number(most)}</span>
      <p class="hidden">
        {text.described(sum(buckets, "started"), sum(buckets, "ended"), sum(buckets, "failed"))} {text.sameInTable}
      </p>
      <div class="plot" aria-hidden="true">
        {buckets.map((one) => (
          <a
            key={one.at}
            class="stretch"
            tabIndex={-1}
            title={`${show(one.at)}: ${text.described(one.started, one.ended, one.failed)}`}
            href={href("/runs", { since: iso(one.at), until: iso(one.at + step) })}
          >
            <span data-group="busy" style={high(one.started)} />
            <span data-group="good" style={high(one.ended)}>
              <span data-group="bad" style={{ blockSize: `${one.ended ? (100 * one.failed) / one.ended : 0}%` }} />
            </span>
          </a>
        ))}
      </div>
      <div class="axis soft small number">
        <span>{show(first)}</span>
        <span>{show(first + step * Math.floor(buckets.length / 2))}</span>
        <span>{show(first + step * buckets.length)}</span>
      </div>
    </div>
  );
}

function Table({ buckets }: { buckets: readonly Stretch[] }) {
  const step = (buckets[1]?.at ?? 0) - (buckets[0]?.at ?? 0);
  return (
    <table class="plain-table" aria-labelledby="activity">
      <thead>
        <tr>
          <th scope="col">{text.columns.from}</th>
          <th scope="col" class="right">
            {text.columns.started}
          </th>
          <th scope="col" class="right">
            {text.columns.ended}
          </th>
          <th scope="col" class="right">
            {text.columns.failed}
          </th>
        </tr>
      </thead>
      <tbody>
        {buckets.toReversed().map((one) => (
          <tr key={one.at}>
            <td>
              <a href={href("/runs", { since: iso(one.at), until: iso(one.at + step) })}>
                <Moment at={one.at} />
              </a>
            </td>
            <td class="right number">{number(one.started)}</td>
            <td class="right number">{number(one.ended)}</td>
            <td class={one.failed ? "right number bad" : "right number"}>{number(one.failed)}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
