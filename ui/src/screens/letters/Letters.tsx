// Dead letters: groups by workflow, node and error with their counts; the letters of a group; one of them with what it was given.
import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { call, type Schemas } from "../../api/call.ts";
import { readPages, useLoad } from "../../api/load.ts";
import { Empty, Foreign, Loading, Moment } from "../../kit/basics.tsx";
import { isItem } from "../../kit/mailbox.ts";
import { Problem } from "../../kit/problem.tsx";
import { href, place } from "../../router.ts";
import { lacks, readMe } from "../../shell/me.ts";
import { words as general, number } from "../../words/en.ts";
import { words } from "../../words/people.ts";
import { Letter } from "./Letter.tsx";
import { nodeName, workflowName } from "./naming.ts";
import { ManySheet, type Repair } from "./sheets.tsx";

type Group = Schemas["DeadLetterGroup"];
const PAGE = 200;

export default function Letters({ names }: { names: Readonly<Record<string, string>> }) {
  const text = words.letters;
  useEffect(() => {
    document.title = `${text.title} · ${general.product}`;
    void readMe();
  }, []);
  if (names.dead_letter_id) return <Letter key={names.dead_letter_id} id={names.dead_letter_id} />;
  const { query } = place.value;
  const chosen = { workflow: query.get("workflow"), node: query.get("node"), code: query.get("code") };
  return chosen.node ? <OneGroup {...chosen} node={chosen.node} /> : <Groups workflow={chosen.workflow} />;
}

/** The address of a group: its letters. */
const toGroup = (group: Group): string =>
  href("/dead-letters", { workflow: group.workflow ?? undefined, node: group.node, code: group.code ?? undefined });

function Groups({ workflow }: { workflow: string | null }) {
  const text = words.letters;
  const loaded = useLoad(`groups ${workflow}`, (signal) =>
    call("GET /api/v1/dead-letters/counts", { query: { workflow: workflow ?? undefined }, signal }),
  );
  const found = loaded.data.value;
  return (
    <section class="screen">
      <header class="head">
        <h1>{text.title}</h1>
        <p class="soft number" role="status">
          {found && found.total > 0 && text.count(found.total, found.capped)}
        </p>
      </header>
      {!found ? (
        loaded.error.value === undefined ? (
          <Loading />
        ) : (
          <Problem error={loaded.error.value} onRetry={loaded.reload} />
        )
      ) : found.groups.length === 0 ? (
        <Empty title={workflow ? text.none.filtered : text.none.title}>
          <p>{text.none.text}</p>
        </Empty>
      ) : (
        <table class="groups">
          <thead>
            <tr>
              <th scope="col">{text.columns.node}</th>
              <th scope="col">{text.columns.code}</th>
              <th scope="col" class="wide">
                {text.columns.workflow}
              </th>
              <th scope="col" class="number">
                {text.columns.count}
              </th>
              <th scope="col" class="wide">
                {text.columns.oldest}
              </th>
              <th scope="col" class="wide">
                {text.columns.newest}
              </th>
            </tr>
          </thead>
          <tbody>
            {found.groups.map((group) => (
              <tr key={`${group.workflow} ${group.node} ${group.code}`}>
                <th scope="row">
                  <a href={toGroup(group)}>
                    <Foreign text={nodeName(group.workflow, group.node)} />
                  </a>
                </th>
                <td>
                  <Foreign text={group.code ?? text.noCode} className="id" />
                </td>
                <td class="wide">
                  <Foreign text={workflowName(group.workflow)} />
                </td>
                <td class="number">{number(group.count)}</td>
                <td class="wide">
                  <Moment at={group.oldest_at} />
                </td>
                <td class="wide">
                  <Moment at={group.newest_at} />
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </section>
  );
}

function OneGroup({ workflow, node, code }: { workflow: string | null; node: string; code: string | null }) {
  const text = words.letters;
  const repair = useSignal<Repair | undefined>(undefined);
  const about = { workflow: workflow ?? undefined, node, code: code ?? undefined };
  const limit = useSignal(PAGE);
  const read = (signal: AbortSignal) =>
    readPages(limit.value, (cursor) =>
      call("GET /api/v1/dead-letters", { query: { ...about, state: "pending", limit: PAGE, cursor }, signal }),
    );
  const loaded = useLoad(`group ${workflow} ${node} ${code}`, read, limit.value);
  const found = loaded.data.value;
  const off = lacks("dead_letters:operate");
  const ask = (what: Repair) => () => {
    if (off === undefined) repair.value = what;
  };
  return (
    <section class="screen">
      <div class="crumbs">
        <a href={href("/dead-letters")}>{text.all}</a>
        {workflow && (
          <>
            <span aria-hidden="true">/</span>
            <a href={href("/dead-letters", { workflow })}>
              <Foreign text={workflowName(workflow)} />
            </a>
          </>
        )}
      </div>
      <header class="head">
        <h1>
          <Foreign text={code === null ? nodeName(workflow, node) : text.inGroup(nodeName(workflow, node), code)} />
        </h1>
        <p class="letter-buttons">
          {off !== undefined && <span class="why-not">{off}</span>}
          <button type="button" class="strong" aria-disabled={off !== undefined} onClick={ask("requeue")}>
            {text.requeue}
          </button>
          <button type="button" aria-disabled={off !== undefined} onClick={ask("discard")}>
            {text.discard}
          </button>
        </p>
      </header>
      {!found ? (
        loaded.error.value === undefined ? (
          <Loading />
        ) : (
          <Problem error={loaded.error.value} onRetry={loaded.reload} />
        )
      ) : found.items.length === 0 ? (
        <Empty title={text.none.filtered} />
      ) : (
        <table class="groups">
          <thead>
            <tr>
              <th scope="col">{text.run}</th>
              <th scope="col">{text.error}</th>
              <th scope="col" class="wide">
                {text.since}
              </th>
              <th scope="col" class="number wide">
                {text.attempts}
              </th>
            </tr>
          </thead>
          <tbody>
            {found.items.map((one) => (
              <tr key={one.dead_letter_id}>
                <th scope="row" class="cut-id">
                  <a href={href(`/dead-letters/${encodeURIComponent(one.dead_letter_id)}`)}>
                    {isItem(one.workflow) && one.trigger ? (
                      <Foreign text={one.trigger} />
                    ) : (
                      <Foreign text={one.run_id} className="id" />
                    )}
                  </a>{" "}
                  {one.item !== null && <span class="soft">{text.item(one.item)}</span>}{" "}
                  {one.undo && <span class="soft">{text.undo}</span>}
                </th>
                <td>
                  <Foreign text={one.error?.message?.split("\n")[0]?.slice(0, 200) ?? ""} />
                </td>
                <td class="wide">
                  <Moment at={one.created_at} />
                </td>
                <td class="number wide">{number(one.attempt)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      {found?.more && (
        <p>
          <button type="button" class="quiet" onClick={() => (limit.value += PAGE)}>
            {text.more}
          </button>
        </p>
      )}
      {repair.value && (
        <ManySheet
          repair={repair.value}
          about={{ workflow, node, code }}
          onClose={() => {
            repair.value = undefined;
            loaded.reload();
          }}
        />
      )}
    </section>
  );
}
