// Keep: a file that a node gave becomes a version of a name, and outlives its run.
import { useSignal } from "@preact/signals";
import { call, type Schemas } from "../../api/call.ts";
import type { Giver } from "../../kit/Asset.tsx";
import { CopyAs } from "../../kit/CopyAs.tsx";
import { Field, Sheet } from "../../kit/Sheet.tsx";
import { href } from "../../router.ts";
import { lacks } from "../../shell/me.ts";
import { assets } from "../../words/assets.ts";
import { files } from "../../words/files.ts";
import { keepDoing } from "./keeping.ts";

interface Props {
  readonly giver: Giver;
  readonly pointer: string;
  readonly name: string;
  readonly onClose: () => void;
}

export function KeepSheet({ giver, pointer, name: own, onClose }: Props) {
  const text = files.keepSheet;
  const name = useSignal(own);
  const kept = useSignal<Schemas["AssetVersion"] | undefined>(undefined);
  const body = { run_id: giver.runId, node: giver.node, name: name.value.trim(), pointer, visit: giver.visit };
  const act = async () => {
    kept.value = await call("POST /api/v1/assets", { body: { ...body, visit: giver.visit ?? null, item: null } });
  };
  const done = kept.value;
  return (
    <Sheet
      title={text.title(own || assets.nameless)}
      verb={text.verb}
      onClose={onClose}
      onDo={act}
      whyNot={lacks("blobs:write") ?? (body.name ? undefined : text.needs)}
      done={
        done && (
          <p role="status">
            {text.done(done.name, done.version)} <a href={href("/assets")}>{text.list}</a>
          </p>
        )
      }
    >
      <p>{text.does}</p>
      {!done && (
        <>
          <Field label={text.name}>
            {(named) => (
              <input
                {...named}
                type="text"
                maxLength={200}
                value={name.value}
                onInput={(event) => (name.value = event.currentTarget.value)}
              />
            )}
          </Field>
          <CopyAs doing={keepDoing(body)} />
        </>
      )}
    </Sheet>
  );
}
