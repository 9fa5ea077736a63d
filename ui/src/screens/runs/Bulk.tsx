// What can be done with the runs that are selected: always seen, and off with its reason where it cannot be done.
import { type Signal, useSignal } from "@preact/signals";
import type { ComponentType } from "preact";
import { call, now } from "../../api/call.ts";
import { go, href } from "../../router.ts";
import { lacks } from "../../shell/me.ts";
import { runs as words } from "../../words/runs.ts";
import type { BulkAction, Given } from "./BulkSheet.tsx";
import { toConditions } from "./filter.ts";
import type { RunList } from "./list.ts";

/** Those that are selected by themselves, or all that match the filter. */
export interface Chosen {
  readonly ids: ReadonlySet<string>;
  readonly all: { readonly total: number; readonly capped: boolean } | undefined;
}

export const NOBODY: Chosen = { ids: new Set(), all: undefined };

const ACTIONS: readonly BulkAction[] = ["cancel", "pause", "resume", "retry", "rollback"];

export function Bulk({ list, chosen }: { list: RunList; chosen: Signal<Chosen> }) {
  const text = words.bulk;
  const asked = useSignal<BulkAction | undefined>(undefined);
  const Sheet = useSignal<ComponentType<Given> | undefined>(undefined);
  const { ids, all } = chosen.value;
  const isWaiting = list.filter.state.includes("waiting");
  const whyNot =
    lacks("runs:operate") ?? (all?.capped ? text.needCount : ids.size === 0 && !all ? text.needSome : undefined);
  const two = [...ids];
  const takeAll = async () => {
    const { total, capped } = await call("GET /api/v1/runs/counts", { query: toConditions(list.filter, now()) });
    chosen.value = { ids: new Set(), all: { total, capped } };
  };
  const open = async (action: BulkAction) => {
    if (whyNot !== undefined) return;
    const made = await import("./BulkSheet.tsx");
    Sheet.value = made.BulkSheet;
    asked.value = action;
  };
  const Found = Sheet.value;
  return (
    <div class="bulk" role="toolbar" data-chosen={ids.size > 0 || all !== undefined} aria-label={text.label}>
      <span class={ids.size || all ? "number" : "soft"} role="status">
        {all ? text.all(all.total, all.capped) : ids.size ? text.chosen(ids.size) : text.none}
      </span>
      {(ids.size > 0 || all) && (
        <>
          {!all && (
            <button
              type="button"
              class="quiet"
              aria-disabled={isWaiting}
              title={isWaiting ? text.waiting : undefined}
              onClick={() => {
                if (!isWaiting) void takeAll().catch(() => {}); // the banner says that nobody answers
              }}
            >
              {text.takeAll}
            </button>
          )}
          <button
            type="button"
            class="quiet"
            onClick={() => {
              chosen.value = NOBODY;
            }}
          >
            {text.clear}
          </button>
        </>
      )}
      <span class="verbs">
        {ACTIONS.map((action) => (
          <button
            key={action}
            type="button"
            aria-disabled={whyNot !== undefined}
            title={whyNot}
            onClick={() => void open(action)}
          >
            {text.actions[action]}
          </button>
        ))}
        <button
          type="button"
          aria-disabled={two.length !== 2}
          title={two.length === 2 ? undefined : text.needTwo}
          onClick={() => {
            if (two.length === 2) go(href(`/runs/${encodeURIComponent(two[0]!)}`, { compare: two[1]! }));
          }}
        >
          {text.compare}
        </button>
      </span>
      {asked.value && Found && (
        <Found
          action={asked.value}
          ids={all ? undefined : two}
          filter={list.filter}
          rows={list.rows.value}
          onClose={() => {
            asked.value = undefined;
            void list.look(scrollY < 44).catch(() => {}); // the pulse says when nobody answers
          }}
        />
      )}
    </div>
  );
}
