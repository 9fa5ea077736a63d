// Agents: the tools that they find in the registry, and the sessions in which they remember.
import { useEffect } from "preact/hooks";
import { href, place } from "../../router.ts";
import { readMe } from "../../shell/me.ts";
import { agents } from "../../words/agents.ts";
import { words } from "../../words/en.ts";
import { OneSession, Sessions } from "./Sessions.tsx";
import { Tools } from "./Tools.tsx";

const PARTS = ["tools", "sessions"] as const;

export default function Agents() {
  const { query } = place.value;
  const [workflow, node, session] = ["workflow", "node", "session"].map((name) => query.get(name) ?? "");
  const part = query.get("tab") === "sessions" ? "sessions" : "tools";
  useEffect(() => {
    document.title = `${agents.title} · ${words.product}`;
    void readMe();
  }, []);
  if (workflow && node && session) return <OneSession workflow={workflow} node={node} sessionKey={session} />;
  return (
    <section class="screen">
      <header class="head">
        <h1>{agents.title}</h1>
      </header>
      <nav class="sub" aria-label={agents.title}>
        {PARTS.map((one) => (
          <a
            key={one}
            href={href("/agents", { tab: one === "tools" ? undefined : one })}
            aria-current={one === part ? "page" : undefined}
          >
            {agents.parts[one]}
          </a>
        ))}
      </nav>
      {part === "tools" ? <Tools /> : <Sessions />}
    </section>
  );
}
