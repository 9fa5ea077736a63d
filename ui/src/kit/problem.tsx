// What went wrong, in words: what the server said, what to do, and what to tell an operator.
import { useEffect } from "preact/hooks";
import { Refused } from "../api/call.ts";
import { words } from "../words/en.ts";
import { CopyButton, Foreign } from "./basics.tsx";

const TITLES: Readonly<Record<number, string>> = {
  401: words.problem.unauthenticated,
  403: words.problem.forbidden,
  404: words.problem.missing,
};

export function Problem({ error, onRetry }: { error: unknown; onRetry?: () => void }) {
  const refused = error instanceof Refused ? error : undefined;
  const status = refused?.problem.status ?? 0;
  const wait = status === 429 ? Math.max(1, Math.ceil(refused?.retrySeconds ?? 1)) : 0;
  useEffect(() => {
    if (!wait || !onRetry) return;
    const timer = setTimeout(onRetry, wait * 1000);
    return () => clearTimeout(timer);
  }, [error]);
  return (
    <div class="problem" role="alert">
      <h2>{TITLES[status] ?? words.problem.title}</h2>
      <p>{refused ? <Foreign text={refused.problem.detail} /> : words.problem.unreachable}</p>
      {wait > 0 && <p>{words.problem.wait(wait)}</p>}
      {refused?.problem.problems && (
        <ul>
          {refused.problem.problems.map((one) => (
            <li key={one.path + one.code}>
              <code>
                <Foreign text={one.path} />
              </code>{" "}
              <Foreign text={one.message} />
            </li>
          ))}
        </ul>
      )}
      {refused && (
        <p class="soft">
          {words.problem.code} <code>{refused.problem.code}</code> · {words.problem.request}{" "}
          <code>{refused.problem.request_id}</code> <CopyButton text={refused.problem.request_id} />
        </p>
      )}
      {onRetry && (
        <button type="button" onClick={onRetry}>
          {words.retry}
        </button>
      )}
    </div>
  );
}
