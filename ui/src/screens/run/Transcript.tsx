// What a model was told, said and called, turn by turn, with what was decided about each call and what it cost.
import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { call, type Schemas } from "../../api/call.ts";
import { useLoad } from "../../api/load.ts";
import { Foreign, Loading } from "../../kit/basics.tsx";
import { Json } from "../../kit/Json.tsx";
import { Problem } from "../../kit/problem.tsx";
import { groupOf } from "../../kit/states.ts";
import { shownDuration } from "../../kit/time.ts";
import { href } from "../../router.ts";
import { transcript as text } from "../../words/transcript.ts";
import type { RunStore } from "./store.ts";

type Turn = Schemas["Turn"];
type Call = Schemas["TurnCall"];

export default function Transcript({ store, node }: { store: RunStore; node: string }) {
  const at = store.at.value;
  const path = { run_id: store.runId, node };
  const again = at === undefined ? store.readings.value : 0;
  const found = useLoad(
    `${node} ${at}`,
    (signal) => call("GET /api/v1/runs/{run_id}/nodes/{node}/transcript", { path, query: { at }, signal }),
    again,
  );
  const older = useSignal<readonly Turn[]>([]);
  const next = useSignal<string | null | undefined>(undefined);
  useEffect(() => {
    older.value = [];
    next.value = undefined;
  }, [found.data.value]);
  const data = found.data.value;
  if (found.error.value !== undefined && !data) return <Problem error={found.error.value} onRetry={found.reload} />;
  if (!data) return <Loading rows={3} />;
  if (data.sealed) return <p class="soft">{text.sealed}</p>;
  const cursor = next.value === undefined ? data.next_cursor : next.value;
  const more = async () => {
    const query = { at, cursor: cursor ?? undefined };
    const page = await call("GET /api/v1/runs/{run_id}/nodes/{node}/transcript", { path, query });
    older.value = [...older.value, ...page.turns];
    next.value = page.next_cursor;
  };
  return (
    <ol class="transcript">
      {data.instructions && <Told title={text.instructions} said={data.instructions} />}
      {data.messages.map((message, index) => (
        <Told
          key={`message ${index}`}
          title={text.roles[message.role] ?? message.role}
          said={message.text}
          images={message.images}
        />
      ))}
      {[...data.turns, ...older.value].map((turn) => (
        <Answer key={turn.step} turn={turn} />
      ))}
      {data.asking !== null && (
        <li class="soft" role="status">
          {text.asking}
        </li>
      )}
      {data.turns.length === 0 && data.asking === null && <li class="soft">{text.none}</li>}
      {cursor !== null && (
        <li>
          <button type="button" class="quiet" onClick={() => void more()}>
            {text.more}
          </button>
        </li>
      )}
    </ol>
  );
}

function Told({ title, said, images = 0 }: { title: string; said: string; images?: number }) {
  return (
    <li class="told">
      <h4>
        {title} {images > 0 && <span class="soft">{text.images(images)}</span>}
      </h4>
      <p class="spoken">
        <Foreign text={said} />
      </p>
    </li>
  );
}

function Answer({ turn }: { turn: Turn }) {
  return (
    <li class="answer">
      <h4>
        {text.turn(turn.turn)}{" "}
        <span class="soft">
          <Foreign text={turn.alias || turn.model} /> {text.took(shownDuration(turn.ms / 1000))}
        </span>
      </h4>
      {turn.said && (
        <p class="spoken">
          <Foreign text={turn.said} />
        </p>
      )}
      {turn.calls.map((one) => (
        <Made key={one.id} one={one} />
      ))}
      <p class="soft small">
        {text.tokens(turn.usage.input, turn.usage.output)} · {text.cost(turn.usage.usd, turn.usage.priced)}
      </p>
      {turn.drift && <p class="soft small">{text.drift}</p>}
    </li>
  );
}

function Made({ one }: { one: Call }) {
  const verdict = one.verdict ?? "";
  const by = typeof one.decided_by === "string" ? one.decided_by : "";
  return (
    <div class="made">
      <p class="made-head">
        <Foreign text={one.tool} className="id" />
        {verdict && (
          <span class="state small" data-group={groupOf(verdict)}>
            {text.verdicts[verdict] ?? verdict}
          </span>
        )}
        <span class="soft small">{one.outcome ? (text.outcomes[one.outcome] ?? one.outcome) : text.open}</span>
      </p>
      {(one.why || one.rule) && (
        <p class="soft small">
          <Foreign text={[one.why, one.rule && text.rule(one.rule)].filter(Boolean).join(" · ")} />
        </p>
      )}
      {one.trifecta && <p class="bad small">{text.trifecta}</p>}
      {one.decision && (
        <p class="small">
          <Foreign text={text.decided(one.decision, by)} /> {one.comments && <Foreign text={one.comments} />}
        </p>
      )}
      {one.not_made && (
        <p class="bad small">
          <Foreign text={one.not_made} />
        </p>
      )}
      <details class="fold-part">
        <summary>{text.arguments}</summary>
        <Json value={one.arguments} copy />
      </details>
      {one.changed !== undefined && (
        <details class="fold-part">
          <summary>{text.changed}</summary>
          <Json value={one.changed} copy />
        </details>
      )}
      {one.result !== undefined && (
        <details class="fold-part">
          <summary>{text.result}</summary>
          <p class="spoken">
            <Foreign text={one.result} />
          </p>
        </details>
      )}
      {one.approval_id && <a href={href(`/approvals/${encodeURIComponent(one.approval_id)}`)}>{text.approval}</a>}
      {one.run_id && <a href={href(`/runs/${encodeURIComponent(one.run_id)}`)}>{text.child}</a>}
    </div>
  );
}
