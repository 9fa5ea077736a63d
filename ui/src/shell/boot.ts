// What the server says before anyone has logged in: how to log in, and which build of these pages it has.
import { signal } from "@preact/signals";
import { call, type Schemas } from "../api/call.ts";

export const boot = signal<Schemas["Boot"] | undefined>(undefined);
/** Whether the server has another build than the one that runs here. */
export const staleBuild = signal(false);

export async function readBoot(): Promise<void> {
  const found = await call("GET /api/v1/ui/boot");
  boot.value = found;
  staleBuild.value = found.build !== "" && found.build !== document.documentElement.dataset.build;
}
