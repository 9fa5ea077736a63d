// The colours of the style sheet as a canvas needs them: as they are now, light or dark.
import { ICONS } from "./icons.ts";

export interface Palette {
  readonly ground: string;
  readonly line: string;
  readonly arrow: string;
  readonly title: string;
  readonly soft: string;
  readonly choice: string;
  readonly failure: string;
  readonly accent: string;
  readonly states: Readonly<Record<string, { border: string; ground: string; text: string }>>;
  readonly types: Readonly<Record<string, string>>;
}

const GROUPS = ["good", "busy", "waits", "bad", "stopped", "undone", "none"];

export function readPalette(beside: HTMLElement): Palette {
  const probe = document.createElement("span");
  probe.hidden = true;
  beside.after(probe);
  // A variable is a text until it is used as a colour: the probe uses it.
  const read = (name: string): string => {
    probe.style.color = `var(--${name})`;
    return getComputedStyle(probe).color;
  };
  const found: Palette = {
    ground: read("ground"),
    line: read("line"),
    arrow: read("arrow"),
    title: read("title"),
    soft: read("dim"),
    choice: read("choice"),
    failure: read("failure"),
    accent: read("accent"),
    states: Object.fromEntries(
      GROUPS.map((group) => [
        group,
        { border: read(`${group}-border`), ground: read(`${group}-ground`), text: read(`${group}-text`) },
      ]),
    ),
    types: Object.fromEntries(Object.keys(ICONS).map((kind) => [kind, read(`type-${kind}`)])),
  };
  probe.remove();
  return found;
}
