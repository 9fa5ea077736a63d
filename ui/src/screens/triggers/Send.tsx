// How another system sends to a webhook: its address, the proof it asks for, and a command to try it with.
import { CopyButton, Foreign } from "../../kit/basics.tsx";
import { base } from "../../router.ts";
import { words } from "../../words/triggers.ts";
import { asShell, type Verify, WITH_IDS } from "./sending.ts";

export function Send({ hook, verify, hasId }: { hook: string; verify: Verify; hasId: boolean }) {
  const text = words.send;
  const address = location.origin + base + hook;
  const command = asShell(address, verify);
  const knowsId = hasId || WITH_IDS.includes(verify.scheme) || Boolean(verify.id_header);
  return (
    <section class="stack send">
      <h2>{words.sections.send}</h2>
      <div class="command">
        <span class="hidden">{text.address}</span>
        <code>
          <Foreign text={address} />
        </code>
        <CopyButton text={address} />
      </div>
      <p>
        {text.scheme[verify.scheme] ?? verify.scheme}{" "}
        {verify.scheme !== "none" && <Foreign text={text.secret(verify.secret)} />} {!knowsId && text.noId}
      </p>
      <div class="shell">
        <p class="soft">
          {text.try} <CopyButton text={command} />
        </p>
        <pre tabIndex={0}>
          <Foreign text={command} />
        </pre>
      </div>
      <details>
        <summary>{text.answers}</summary>
        <dl class="answers">
          {text.rows.map(([code, what]) => (
            <div key={code}>
              <dt class="number">{code}</dt>
              <dd>{what}</dd>
            </div>
          ))}
        </dl>
      </details>
    </section>
  );
}
