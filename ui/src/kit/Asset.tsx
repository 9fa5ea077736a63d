// A file among values: what it is, with a look at its beginning and its content as a download.
import { useSignal } from "@preact/signals";
import { createContext } from "preact";
import { useContext } from "preact/hooks";
import { addressOf } from "../api/call.ts";
import { assets as text } from "../words/assets.ts";
import { type Asset, hashOf } from "./assets.ts";
import { Foreign, Icon } from "./basics.tsx";
import { later } from "./Later.tsx";
import { type Path, pointerOf } from "./paths.ts";

const FILE = "M4 2.500h5l3 3v8H4zM9 2.500v3h3";

/** What stands around a value that a node gave: then a file in it can be kept beyond the run. */
export interface Giver {
  readonly runId: string;
  readonly node: string;
  readonly visit?: number | undefined;
}
export const Given = createContext<Giver | undefined>(undefined);

const parts = () => import("../screens/assets/FileParts.tsx");
const Peek = later(async () => ({ default: (await parts()).Peek }), true);
const KeepSheet = later(async () => ({ default: (await parts()).KeepSheet }), true);

export function AssetValue({ asset, path }: { asset: Asset; path: Path }) {
  const giver = useContext(Given);
  const open = useSignal(false);
  const keeping = useSignal(false);
  const name = asset.name || text.nameless;
  const hash = hashOf(asset.ref);
  return (
    <div class="asset" role="group" aria-label={text.label(name)}>
      <p class="asset-head">
        <Icon path={FILE} />
        <Foreign text={name} className="asset-name" />
        <span class="soft">
          <Foreign text={asset.mediaType} /> · <span class="number">{text.bytes(asset.size)}</span>
        </span>
        <span class="asset-ways">
          <button type="button" class="quiet" aria-expanded={open.value} onClick={() => (open.value = !open.value)}>
            {open.value ? text.close : text.look}
          </button>
          <a
            class="button quiet"
            href={addressOf("GET /api/v1/blobs/{hash}", { path: { hash } })}
            download={(asset.name || hash).replaceAll(/[^A-Za-z0-9._-]/g, "_")}
          >
            {text.download}
          </a>
          {giver && (
            <button type="button" class="quiet" onClick={() => (keeping.value = true)}>
              {text.keep}
            </button>
          )}
        </span>
      </p>
      {open.value && <Peek asset={asset} />}
      {keeping.value && giver && (
        <KeepSheet giver={giver} pointer={pointerOf(path)} name={asset.name} onClose={() => (keeping.value = false)} />
      )}
    </div>
  );
}
