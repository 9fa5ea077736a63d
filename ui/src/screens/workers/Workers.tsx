// Workers and queues: who works, on what, and which work nobody takes.
import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { call, type Schemas } from "../../api/call.ts";
import { usePoll } from "../../api/poll.ts";
import { Command, Duration, Empty, Foreign, Loading } from "../../kit/basics.tsx";
import { Problem } from "../../kit/problem.tsx";
import { shownDuration } from "../../kit/time.ts";
import { href } from "../../router.ts";
import { number, words } from "../../words/en.ts";
import { operators } from "../../words/operators.ts";

type Worker = Schemas["Worker"];
type Queue = Schemas["Queue"];

const POLL_SECONDS = 2;
const QUIET_SECONDS = 10;

export default function Workers({ names }: { names: Readonly<Record<string, string>> }) {
  const text = operators.workers;
  const only = names.queue;
  const found = usePoll("workers", POLL_SECONDS, async (signal) => {
    const [workers, queues] = await Promise.all([
      call("GET /api/v1/workers", { signal }),
      call("GET /api/v1/queues", { signal }),
    ]);
    return { workers: workers.items, queues: queues.items };
  });
  const title = only === undefined ? text.title : text.queue(only);
  useEffect(() => {
    document.title = `${title} · ${words.product}`;
  }, [title]);
  const data = found.data.value;
  return (
    <section class="screen">
      {only !== undefined && (
        <div class="crumbs">
          <a href={href("/workers")}>{text.title}</a>
          <span aria-hidden="true">/</span>
          <Foreign text={only} className="id" />
        </div>
      )}
      <header class="head">
        <h1>
          <Foreign text={title} />
        </h1>
      </header>
      {data ? (
        <Body only={only} workers={data.workers} queues={data.queues} />
      ) : found.error.value === undefined ? (
        <Loading rows={6} />
      ) : (
        <Problem error={found.error.value} onRetry={found.retry} />
      )}
    </section>
  );
}

function Body({ only, workers, queues }: { only: string | undefined; workers: Worker[]; queues: Queue[] }) {
  const text = operators.workers;
  const shown = only === undefined ? workers : workers.filter((one) => one.queues.includes(only));
  const seen = only === undefined ? queues : queues.filter((one) => one.queue === only);
  return (
    <>
      {seen.filter(isDeserted).map((one) => (
        <Deserted key={one.queue} queue={one} />
      ))}
      <h2 id="queues-title">{text.queues}</h2>
      {seen.length === 0 ? (
        <Empty title={only === undefined ? text.noQueues : text.noQueue} />
      ) : (
        <div class="scroller">
          <Queues queues={seen} />
        </div>
      )}
      <h2 id="workers-title">{text.workers}</h2>
      {shown.length === 0 ? (
        <Empty title={text.noWorkers}>
          <p>{text.noWorkersText}</p>
          <Command text={text.command(only ?? "default")} />
        </Empty>
      ) : (
        <div class="scroller">
          <WorkerTable workers={shown} />
        </div>
      )}
    </>
  );
}

const waitingIn = (queue: Queue) => (queue.waiting ?? 0) + (queue.backlog ?? 0) + (queue.held ?? 0);
const isDeserted = (queue: Queue) => queue.workers === 0 && waitingIn(queue) > 0;

function Deserted({ queue }: { queue: Queue }) {
  const text = operators.workers;
  return (
    <div class="notice" data-group="bad" role="status">
      <p>
        <strong>
          <Foreign text={queue.queue} />
        </strong>{" "}
        {text.deserted(waitingIn(queue))}
      </p>
      <Command text={text.command(queue.queue)} />
    </div>
  );
}

function Figure({ value }: { value: number | null }) {
  if (value !== null) return <>{number(value)}</>;
  return (
    <span class="soft" title={operators.workers.hidden}>
      {operators.workers.none}
    </span>
  );
}

function Queues({ queues }: { queues: Queue[] }) {
  const { columns } = operators.workers;
  return (
    <table class="ops-table" aria-labelledby="queues-title">
      <thead>
        <tr>
          <th scope="col">{columns.queue}</th>
          <th scope="col">{columns.listening}</th>
          <th scope="col">{columns.running}</th>
          <th scope="col" class="end">
            {columns.waiting}
          </th>
          <th scope="col" class="end">
            {columns.backlog}
          </th>
          <th scope="col" class="end">
            {columns.held}
          </th>
        </tr>
      </thead>
      <tbody>
        {queues.map((one) => (
          <tr key={one.queue}>
            <td>
              <a href={href(`/queues/${encodeURIComponent(one.queue)}`)}>
                <Foreign text={one.queue} />
              </a>
            </td>
            <td class={one.workers === 0 ? "number nowrap bad" : "number nowrap"}>
              {operators.workers.listeners(one.workers)}
            </td>
            <td>
              <Load running={one.running} slots={one.slots} />
            </td>
            <td class="number end">
              <Figure value={one.waiting} />
            </td>
            <td class="number end">
              <Figure value={one.backlog} />
            </td>
            <td class="number end">
              <Figure value={one.held} />
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function Load({ running, slots }: { running: number | null; slots: number }) {
  if (running === null) return <Figure value={null} />;
  return (
    <span class="load">
      <meter
        min={0}
        max={Math.max(1, slots)}
        value={Math.min(running, slots)}
        aria-label={operators.workers.columns.running}
      />
      <span class="number">{operators.workers.load(running, slots)}</span>
    </span>
  );
}

function WorkerTable({ workers }: { workers: Worker[] }) {
  const { columns } = operators.workers;
  const open = useSignal<string | undefined>(undefined);
  return (
    <table class="ops-table" aria-labelledby="workers-title">
      <thead>
        <tr>
          <th scope="col">{columns.worker}</th>
          <th scope="col">{columns.state}</th>
          <th scope="col">{columns.queues}</th>
          <th scope="col">{columns.running}</th>
          <th scope="col" class="end">
            {columns.lag}
          </th>
        </tr>
      </thead>
      <tbody>
        {workers.map((one) => (
          <Row
            key={one.worker}
            worker={one}
            isOpen={open.value === one.worker}
            onToggle={() => {
              open.value = open.value === one.worker ? undefined : one.worker;
            }}
          />
        ))}
      </tbody>
    </table>
  );
}

function Row({ worker, isOpen, onToggle }: { worker: Worker; isOpen: boolean; onToggle: () => void }) {
  const text = operators.workers;
  const isQuiet = worker.silent_seconds > QUIET_SECONDS;
  const group = worker.state === "dead" ? "bad" : isQuiet ? "waits" : "good";
  return (
    <>
      <tr>
        <td>
          <button type="button" class="disclose" aria-expanded={isOpen} onClick={onToggle}>
            <Foreign text={worker.worker} className="id" />
          </button>
          {worker.host && (
            <div class="soft small">
              {" "}
              <Foreign text={text.place(worker.host, worker.pid ?? 0)} />
            </div>
          )}
        </td>
        <td>
          <span class="state small" data-group={group}>
            {worker.state === "dead" || isQuiet ? text.silent(shownDuration(worker.silent_seconds)) : text.alive}
          </span>
        </td>
        <td>
          <Foreign text={worker.queues.join(", ")} />
        </td>
        <td>
          <Load running={worker.running} slots={worker.slots} />
        </td>
        <td class="number end">{shownDuration(worker.lag_seconds)}</td>
      </tr>
      {isOpen && (
        <tr class="opened">
          <td colSpan={5}>
            <Details worker={worker} />
          </td>
        </tr>
      )}
    </>
  );
}

function Details({ worker }: { worker: Worker }) {
  const text = operators.workers;
  return (
    <div class="details">
      <h3>{text.tasks}</h3>
      {worker.tasks.length === 0 ? (
        <p class="soft">{text.noTasks}</p>
      ) : (
        <ul class="tasks">
          {worker.tasks.map((one) => (
            <li key={`${one.run_id} ${one.node} ${one.item} ${one.attempt}`}>
              <a href={href(`/runs/${encodeURIComponent(one.run_id)}`, { node: one.node })}>
                <Foreign text={one.node} />
              </a>{" "}
              <span class="soft">
                <Foreign text={text.ofRun(one.run_id)} />, {text.attempt(one.attempt)}{" "}
                {one.since !== null && <Duration from={one.since} to={undefined} />}
              </span>
            </li>
          ))}
        </ul>
      )}
      <h3>{text.types}</h3>
      <p>
        <Foreign text={worker.types.join(", ") || operators.workers.none} />
      </p>
      <h3>{text.functions}</h3>
      <p>
        <Foreign text={worker.functions.join(", ") || text.noFunctions} />
      </p>
    </div>
  );
}
