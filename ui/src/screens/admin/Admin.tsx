// Administration: keys, who may do what, and the audit.
import type { ComponentChildren } from "preact";
import { useEffect } from "preact/hooks";
import { Icon } from "../../kit/basics.tsx";
import { MARKS } from "../../kit/states.ts";
import { href, place } from "../../router.ts";
import { me, readMe } from "../../shell/me.ts";
import { words } from "../../words/en.ts";
import { operators } from "../../words/operators.ts";
import { Audit } from "./Audit.tsx";
import { Keys } from "./Keys.tsx";
import { GIVEN, PERMISSIONS, ROLES } from "./roles.ts";

const PARTS = ["keys", "access", "audit"] as const;

export default function Admin({ names }: { names: Readonly<Record<string, string>> }) {
  const text = operators.admin;
  const part = PARTS.find((one) => one === names.part) ?? "keys";
  useEffect(() => {
    document.title = `${text.parts[part]} · ${words.product}`;
    void readMe(); // each part says itself what is refused
  }, [part]);
  return (
    <section class="screen">
      <header class="head">
        <h1>{text.parts[part]}</h1>
      </header>
      <nav class="sub" aria-label={text.title}>
        {PARTS.map((one) => (
          <a key={one} href={href(`/admin/${one}`)} aria-current={one === part ? "page" : undefined}>
            {text.parts[one]}
          </a>
        ))}
      </nav>
      {part === "keys" ? <Keys /> : part === "audit" ? <Audit key={place.value.query.toString()} /> : <Access />}
    </section>
  );
}

function Access() {
  const text = operators.admin.access;
  const mine = me.value;
  return (
    <>
      {mine && <p>{text.you(mine.name, mine.tenant, mine.roles.join(", "))}</p>}
      <section class="scroller" aria-label={text.caption} tabIndex={0}>
        <table class="ops-table matrix">
          <caption class="hidden">{text.caption}</caption>
          <thead>
            <tr>
              <th scope="col">{text.permission}</th>
              {ROLES.map((role) => (
                <Head key={role} isMine={mine?.roles.includes(role) ?? false}>
                  {role}
                </Head>
              ))}
            </tr>
          </thead>
          <tbody>
            {PERMISSIONS.map((one) => (
              <tr key={one} class={mine?.permissions.includes(one) ? "mine" : undefined}>
                <td>
                  <code>{one}</code>
                  <div class="soft small">{text.means[one]}</div>
                </td>
                {ROLES.map((role) => (
                  <td key={role}>
                    {GIVEN[role]?.includes(one) ? (
                      <>
                        <Icon path={MARKS.good} />
                        <span class="hidden">{text.yes}</span>
                      </>
                    ) : (
                      <span class="hidden">{text.no}</span>
                    )}
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </section>
      <p class="soft">{text.note}</p>
    </>
  );
}

function Head({ isMine, children }: { isMine: boolean; children: ComponentChildren }) {
  return (
    <th scope="col" class={isMine ? "mine" : undefined}>
      {children}
      {isMine && <span class="hidden"> {operators.admin.access.yours}</span>}
    </th>
  );
}
