// Files that outlive the run they came from: the versions of each name, with a look into them.
import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { addressOf, call, type Schemas } from "../../api/call.ts";
import { useLoad } from "../../api/load.ts";
import { type Asset, assetOf } from "../../kit/assets.ts";
import { Command, Empty, Foreign, Loading, Moment } from "../../kit/basics.tsx";
import { CopyAs } from "../../kit/CopyAs.tsx";
import { Problem } from "../../kit/problem.tsx";
import { Sheet } from "../../kit/Sheet.tsx";
import { change, href, place } from "../../router.ts";
import { lacks, readMe } from "../../shell/me.ts";
import { assets } from "../../words/assets.ts";
import { number, words } from "../../words/en.ts";
import { files } from "../../words/files.ts";
import { Peek } from "./Peek.tsx";

type Version = Schemas["AssetVersion"];

const PAGE = 100;

export default function Assets() {
  const text = files.list;
  const name = place.value.query.get("name") ?? "";
  useEffect(() => {
    document.title = `${files.title} · ${words.product}`;
    void readMe();
  }, []);
  const found = useLoad(name, (signal) =>
    call("GET /api/v1/assets", { query: { name: name || undefined, limit: PAGE }, signal }),
  );
  const page = found.data.value;
  return (
    <section class="screen">
      <header class="head">
        <h1>{files.title}</h1>
      </header>
      <div class="bar" role="search">
        <label class="pick">
          <span>{text.filter}</span>
          <input
            type="search"
            placeholder={text.filterHint}
            value={name}
            onChange={(event) => change({ name: event.currentTarget.value.trim() })}
          />
        </label>
      </div>
      {!page ? (
        found.error.value === undefined ? (
          <Loading rows={5} onStop={found.stop} />
        ) : (
          <Problem error={found.error.value} onRetry={found.reload} />
        )
      ) : page.items.length > 0 ? (
        <Table key={name} page={page} name={name} onChanged={found.reload} />
      ) : name ? (
        <Empty title={text.none.filtered} />
      ) : (
        <Empty title={text.none.title}>
          <p>{text.none.text}</p>
          <Command text={text.none.command} />
        </Empty>
      )}
    </section>
  );
}

interface Shown {
  readonly page: Schemas["AssetPage"];
  readonly name: string;
  readonly onChanged: () => void;
}

function Table({ page, name, onChanged }: Shown) {
  const text = files.list;
  const { columns } = text;
  const more = useSignal<readonly Version[]>([]);
  const cursor = useSignal<string | null | undefined>(undefined);
  const open = useSignal("");
  const removing = useSignal<Version | undefined>(undefined);
  const next = cursor.value === undefined ? page.next_cursor : cursor.value;
  const readMore = async () => {
    const query = { name: name || undefined, limit: PAGE, cursor: next ?? undefined };
    const found = await call("GET /api/v1/assets", { query });
    more.value = [...more.value, ...found.items];
    cursor.value = found.next_cursor;
  };
  return (
    <>
      <div class="scroller" role="group" aria-label={files.title} tabIndex={0}>
        <table class="ops-table">
          <caption class="hidden">{files.title}</caption>
          <thead>
            <tr>
              <th scope="col">{columns.name}</th>
              <th scope="col" class="end">
                {columns.version}
              </th>
              <th scope="col">{columns.type}</th>
              <th scope="col" class="end">
                {columns.size}
              </th>
              <th scope="col">{columns.from}</th>
              <th scope="col">{columns.kept}</th>
              <th scope="col">
                <span class="hidden">{columns.actions}</span>
              </th>
            </tr>
          </thead>
          <tbody>
            {[...page.items, ...more.value].map((one) => (
              <Row
                key={`${one.name} ${one.version}`}
                one={one}
                isOpen={open.value === `${one.name} ${one.version}`}
                onOpen={(isOpen) => (open.value = isOpen ? `${one.name} ${one.version}` : "")}
                onRemove={() => (removing.value = one)}
              />
            ))}
          </tbody>
        </table>
      </div>
      {next && (
        <p>
          <button type="button" onClick={() => void readMore().catch(() => {})}>
            {text.more}
          </button>
        </p>
      )}
      {removing.value && (
        <RemoveSheet
          one={removing.value}
          onClose={() => {
            removing.value = undefined;
            onChanged();
          }}
        />
      )}
    </>
  );
}

interface OneRow {
  readonly one: Version;
  readonly isOpen: boolean;
  readonly onOpen: (isOpen: boolean) => void;
  readonly onRemove: () => void;
}

function Row({ one, isOpen, onOpen, onRemove }: OneRow) {
  const text = files.list;
  const off = lacks("blobs:write");
  const asset: Asset | undefined = assetOf(one.asset);
  return (
    <>
      <tr>
        <td>
          <button type="button" class="disclose" aria-expanded={isOpen} onClick={() => onOpen(!isOpen)}>
            <Foreign text={one.name} />
          </button>
          {one.file_name && one.file_name !== one.name && (
            <div class="soft small">
              <Foreign text={one.file_name} />
            </div>
          )}
        </td>
        <td class="number end">{number(one.version)}</td>
        <td>
          <Foreign text={one.media_type} />
        </td>
        <td class="number end nowrap">{assets.bytes(one.size)}</td>
        <td>
          {one.run_id === null ? (
            <span class="soft">{text.uploaded}</span>
          ) : (
            <a href={href(`/runs/${encodeURIComponent(one.run_id)}`, { node: one.node ?? undefined })}>
              <Foreign text={one.node ?? one.run_id} />
            </a>
          )}
        </td>
        <td>
          <Moment at={one.kept_at} />
          <div class="soft small">
            <Foreign text={text.by(one.kept_by)} />
          </div>
        </td>
        <td class="end">
          <span class="row-buttons">
            <a
              class="button"
              href={addressOf("GET /api/v1/assets/{name}/content", {
                path: { name: one.name },
                query: { version: one.version },
              })}
              download
            >
              {assets.download}
            </a>
            <button type="button" class="danger" aria-disabled={off !== undefined} title={off} onClick={onRemove}>
              {text.remove}
            </button>
          </span>
        </td>
      </tr>
      {isOpen && asset && (
        <tr class="opened">
          <td colSpan={7}>
            <Peek asset={asset} />
          </td>
        </tr>
      )}
    </>
  );
}

function RemoveSheet({ one, onClose }: { one: Version; onClose: () => void }) {
  const text = files.list;
  const done = useSignal(false);
  const { name, version } = one;
  const act = async () => {
    await call("DELETE /api/v1/assets/{name}", { path: { name }, query: { version } });
    done.value = true;
  };
  return (
    <Sheet
      title={text.removeTitle(name, version)}
      verb={text.remove}
      harmful
      onClose={onClose}
      onDo={act}
      whyNot={lacks("blobs:write")}
      done={done.value ? <p role="status">{text.removed}</p> : undefined}
    >
      <p>{text.removeDoes}</p>
      {!done.value && (
        <CopyAs
          doing={{
            command: ["assets", "delete", name, `${version}`],
            method: "DELETE",
            path: `/api/v1/assets/${encodeURIComponent(name)}?version=${version}`,
            python: ["assets.delete", [name, version], {}],
          }}
        />
      )}
    </Sheet>
  );
}
