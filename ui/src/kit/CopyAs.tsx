// "Copy as": the same request for a terminal, for curl and for Python.
import { base } from "../router.ts";
import { boot } from "../shell/boot.ts";
import { words } from "../words/actions.ts";
import { CopyButton } from "./basics.tsx";
import { asCommand, asCurl, asPython, type Doing } from "./commands.ts";

export function CopyAs({ doing, title = words.copyAs.title }: { doing: Doing; title?: string }) {
  const server = location.origin + base;
  const closed = boot.value !== undefined && boot.value.auth !== "open";
  return (
    <details class="copy-as">
      <summary>{title}</summary>
      <dl>
        {doing.command && <Line name={words.copyAs.command} text={asCommand(doing, server)} />}
        <Line name={words.copyAs.curl} text={asCurl(doing, server, closed)} />
        <Line name={words.copyAs.python} text={asPython(doing, server, closed)} />
      </dl>
      {closed && <p class="soft">{words.copyAs.key}</p>}
    </details>
  );
}

function Line({ name, text }: { name: string; text: string }) {
  return (
    <div>
      <dt>
        {name} <CopyButton text={text} label={words.copyAs.copy(name)} />
      </dt>
      <dd>
        <pre tabIndex={0}>{text}</pre>
      </dd>
    </div>
  );
}
