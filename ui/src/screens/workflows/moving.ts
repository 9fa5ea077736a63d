// Moving an alias, in the words of the command line, of HTTP and of the client.
import type { Doing } from "../../kit/commands.ts";

interface Share {
  readonly version: number;
  readonly percent: number;
}

interface Moved {
  readonly name: string;
  readonly alias: string;
  readonly shares: readonly Share[];
  readonly reason: string;
  readonly revision: number;
}

export const percent = (value: number): string => String(Math.round(value * 100) / 100);

const pathOf = (name: string, alias: string): string =>
  `/api/v1/workflows/${encodeURIComponent(name)}/aliases/${encodeURIComponent(alias)}`;

export function moveDoing({ name, alias, shares, reason, revision }: Moved): Doing {
  const used = shares.filter((one) => one.percent > 0);
  const spelled = used.map((one) => `${one.version}=${percent(one.percent)}`);
  const given = { reason: reason || undefined, expected_revision: revision };
  return {
    command: [
      ...["workflows", "alias", name, alias],
      ...(used.length === 1 ? [`${used[0]?.version}`] : spelled),
      ...(reason ? ["--reason", reason] : []),
    ],
    method: "PUT",
    path: pathOf(name, alias),
    body: { versions: used, ...given },
    python: ["workflows.put_alias", [name, alias, new Map(used.map((one) => [one.version, one.percent]))], given],
  };
}

export const backDoing = (name: string, alias: string): Doing => ({
  command: ["workflows", "alias", name, alias, "--rollback"],
  method: "POST",
  path: `${pathOf(name, alias)}/rollback`,
  body: { reason: "" },
  python: ["workflows.rollback_alias", [name, alias], {}],
});
