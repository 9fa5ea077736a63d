// Log in with a key or token. It is sent once, kept nowhere here, and becomes a cookie that no script can read.
import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { call, needsLogin, Refused } from "../../api/call.ts";
import { href, isOwnPath, place } from "../../router.ts";
import { boot } from "../../shell/boot.ts";
import { words } from "../../words/en.ts";

export default function Login() {
  const text = words.login;
  const field = useRef<HTMLInputElement>(null);
  const error = useSignal("");
  const busy = useSignal(false);
  const asked = place.value.query.get("next") ?? "";
  const next = isOwnPath(asked) ? asked : "/";
  const mode = boot.value?.auth;
  useEffect(() => {
    document.title = `${text.title} · ${words.product}`;
    field.current?.focus();
  }, []);
  const send = async (event: Event) => {
    event.preventDefault();
    const credential = field.current?.value.trim() ?? "";
    if (!credential || busy.value) return;
    busy.value = true;
    error.value = "";
    try {
      await call("POST /api/v1/session", { body: { credential } });
      if (field.current) field.current.value = "";
      needsLogin.value = false;
      // A new page: nothing of whoever was here before is left in it.
      location.replace(href(next));
    } catch (caught) {
      error.value = caught instanceof Refused ? caught.problem.detail : words.problem.unreachable;
      busy.value = false;
      field.current?.select();
    }
  };
  return (
    <section class="screen login">
      <form class="card" onSubmit={send}>
        <h1>{text.title}</h1>
        {mode === "open" ? (
          <p>
            {text.open} <a href={href("/")}>{words.noScreen.next}</a>
          </p>
        ) : (
          <>
            <label>
              <span>{mode === undefined ? text.either : text.fields[mode]}</span>
              <input
                ref={field}
                type="password"
                name="credential"
                autocomplete="current-password"
                spellcheck={false}
                aria-invalid={error.value !== ""}
                aria-describedby="login-error"
                required
              />
            </label>
            <p id="login-error" class="bad" role="alert">
              {error.value}
            </p>
            <button type="submit" class="main" aria-disabled={busy.value}>
              {text.send}
            </button>
            <p class="soft">{text.hint}</p>
          </>
        )}
      </form>
    </section>
  );
}
