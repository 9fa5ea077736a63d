// The beginning of a file: as a picture where its bytes are one, else as text, else as bytes. Never as markup.
import { useEffect } from "preact/hooks";
import { addressOf, refusal, send } from "../../api/call.ts";
import { useLoad } from "../../api/load.ts";
import { type Asset, hashOf } from "../../kit/assets.ts";
import { Foreign, Loading } from "../../kit/basics.tsx";
import { Problem } from "../../kit/problem.tsx";
import { files as text } from "../../words/files.ts";
import { pictureType, printBytes, readText } from "./bytes.ts";

const HEAD = 65_536;
const LARGEST_PICTURE = 10_000_000;

interface Seen {
  readonly picture?: string;
  readonly content?: string;
  readonly hex?: boolean;
  readonly shown: number;
  readonly all: number;
  readonly small: boolean;
}

async function read(ref: string, most: number | undefined, signal: AbortSignal): Promise<Uint8Array<ArrayBuffer>> {
  const headers: Record<string, string> = most === undefined ? {} : { Range: `bytes=0-${most - 1}` };
  const address = addressOf("GET /api/v1/blobs/{hash}", { path: { hash: hashOf(ref) } });
  const response = await send(address, { headers, signal, cache: "no-store" });
  if (!response.ok) throw refusal(response, await response.text());
  return new Uint8Array(await response.arrayBuffer());
}

async function look(asset: Asset, signal: AbortSignal): Promise<Seen> {
  const { ref, size } = asset.preview ?? asset;
  const about = { all: size, small: asset.preview !== undefined };
  if (size === 0) return { ...about, shown: 0 };
  const head = await read(ref, HEAD, signal);
  const type = pictureType(head);
  if (type !== undefined && size <= LARGEST_PICTURE) {
    const whole = size <= head.length ? head : await read(ref, undefined, signal);
    return { ...about, shown: size, picture: URL.createObjectURL(new Blob([whole], { type })) };
  }
  const shown = Math.min(head.length, HEAD);
  const content = readText(head);
  return { ...about, shown, content: content ?? printBytes(head.subarray(0, HEAD)), hex: content === undefined };
}

export function Peek({ asset }: { asset: Asset }) {
  const found = useLoad(asset.ref, (signal) => look(asset, signal));
  const seen = found.data.value;
  const picture = seen?.picture;
  useEffect(() => () => (picture === undefined ? undefined : URL.revokeObjectURL(picture)), [picture]);
  if (!seen)
    return found.error.value === undefined ? (
      <Loading rows={2} />
    ) : (
      <Problem error={found.error.value} onRetry={found.reload} />
    );
  return (
    <div class="peek">
      {seen.shown === 0 ? (
        <p class="soft">{text.empty}</p>
      ) : picture === undefined ? (
        <pre
          class={seen.hex ? "preview hex" : "preview"}
          role="group"
          tabIndex={0}
          aria-label={seen.hex ? text.hex : text.text}
        >
          <Foreign text={seen.content ?? ""} />
        </pre>
      ) : (
        <img src={picture} alt={text.picture(asset.name)} />
      )}
      {seen.small ? (
        <p class="soft small">{text.small}</p>
      ) : (
        seen.shown < seen.all && <p class="soft small">{text.begins(seen.shown, seen.all)}</p>
      )}
    </div>
  );
}
