// Links by which one person decides an approval without logging in: made here, and shown once.
import { useSignal } from "@preact/signals";
import { useId } from "preact/hooks";
import { call, type Schemas } from "../../api/call.ts";
import { CopyButton, Foreign, Moment } from "../../kit/basics.tsx";
import { CopyAs } from "../../kit/CopyAs.tsx";
import type { Doing } from "../../kit/commands.ts";
import { Field, Sheet } from "../../kit/Sheet.tsx";
import { base } from "../../router.ts";
import { lacks } from "../../shell/me.ts";
import { words } from "../../words/people.ts";
import type { Details } from "./Detail.tsx";

const DAY = 86_400;

export function LinksSheet({ approval, onClose }: { approval: Details; onClose: () => void }) {
  const text = words.approvals.links;
  const asked = approval.approvers.filter((one) => !one.includes(":"));
  const approver = useSignal(asked.length === 1 ? (asked[0] ?? "") : "");
  const days = useSignal("7");
  const made = useSignal<Schemas["ApprovalLinks"] | undefined>(undefined);
  const list = useId();
  const id = approval.approval_id;
  const name = approver.value.trim();
  const seconds = Number(days.value) * DAY;
  const act = async () => {
    const body = { approver: name, expires_seconds: seconds };
    made.value = await call("POST /api/v1/approvals/{approval_id}/links", { path: { approval_id: id }, body });
  };
  return (
    <Sheet
      title={text.title}
      verb={text.verb}
      onClose={onClose}
      onDo={act}
      whyNot={lacks("keys:admin", "approvals:decide") ?? (name ? undefined : text.needs)}
      done={made.value && <Made links={made.value} />}
    >
      <p>{text.does}</p>
      {!made.value && (
        <>
          <Field label={text.approver}>
            {(named) => (
              <>
                <input
                  {...named}
                  type="text"
                  list={list}
                  maxLength={200}
                  autocomplete="off"
                  value={approver.value}
                  onInput={(event) => (approver.value = event.currentTarget.value)}
                />
                <datalist id={list}>
                  {asked.map((one) => (
                    <option key={one} value={one} />
                  ))}
                </datalist>
              </>
            )}
          </Field>
          <Field label={text.days}>
            {(named) => (
              <select {...named} value={days.value} onChange={(event) => (days.value = event.currentTarget.value)}>
                {Object.entries(text.ends).map(([one, said]) => (
                  <option key={one} value={one}>
                    {said}
                  </option>
                ))}
              </select>
            )}
          </Field>
          <CopyAs doing={linksDoing(id, name, seconds)} />
        </>
      )}
    </Sheet>
  );
}

/** A server that knows no address of its own gives a path: then it is the one that this page has. */
const whole = (link: string): string => (link.startsWith("/") ? location.origin + base + link : link);

function Made({ links }: { links: Schemas["ApprovalLinks"] }) {
  const text = words.approvals.links;
  return (
    <div class="secret" role="status">
      <p>
        <Foreign text={links.approver} />, {words.approvals.expires} <Moment at={links.expires_at} />. {text.once}
      </p>
      {(["approve", "reject"] as const).map((one) => (
        <p key={one}>
          <strong>{text[one]}</strong> <code class="key">{whole(links[one])}</code>{" "}
          <CopyButton text={whole(links[one])} />
        </p>
      ))}
    </div>
  );
}

/** The command line has no way to make them. */
export function linksDoing(id: string, approver: string, seconds: number): Doing {
  return {
    method: "POST",
    path: `/api/v1/approvals/${encodeURIComponent(id)}/links`,
    body: { approver, expires_seconds: seconds },
    python: ["approvals.make_links", [id, approver], { expires_seconds: seconds }],
  };
}
