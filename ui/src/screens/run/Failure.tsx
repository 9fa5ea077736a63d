// What failed, as it was said: its code, its message, and what stands beside them.
import type { Schemas } from "../../api/call.ts";
import { Foreign } from "../../kit/basics.tsx";
import { Json } from "../../kit/Json.tsx";

export function Failure({ error }: { error: Schemas["Error"] }) {
  return (
    <div class="failure">
      <code>{error.code}</code>
      {error.message && (
        <pre>
          <Foreign text={error.message} />
        </pre>
      )}
      {typeof error.details === "string" ? (
        <pre>
          <Foreign text={error.details} />
        </pre>
      ) : (
        error.details !== undefined && error.details !== null && <Json value={error.details} />
      )}
    </div>
  );
}
