// Colours that programs write for a terminal, as classes: the text stays text, and every other sequence is left out.

export interface Coloured {
  readonly text: string;
  /** `red`, `bold green`; empty: as the line is. */
  readonly look: string;
}

const NAMES = ["black", "red", "green", "yellow", "blue", "magenta", "cyan", "white"] as const;
const SEQUENCE = /\u001b\[([0-9;]{0,40})([A-Za-z])/g;

interface Look {
  readonly colour: string;
  readonly bold: boolean;
}

const PLAIN: Look = { colour: "", bold: false };

function follow(look: Look, codes: readonly number[]): Look {
  let { colour, bold } = look;
  for (let index = 0; index < codes.length; index++) {
    const code = codes[index] ?? 0;
    if (code === 0) ({ colour, bold } = PLAIN);
    else if (code === 1) bold = true;
    else if (code === 22) bold = false;
    else if (code === 39) colour = "";
    else if (code === 38 || code === 48)
      index += codes[index + 1] === 2 ? 4 : 2; // of 256 colours or more: not shown
    else if ((code >= 30 && code <= 37) || (code >= 90 && code <= 97)) colour = NAMES[code % 10] ?? "";
  }
  return { colour, bold };
}

export function readColours(line: string): Coloured[] {
  if (!line.includes("\u001b")) return [{ text: line, look: "" }];
  const found: Coloured[] = [];
  let look = PLAIN;
  let end = 0;
  const add = (text: string) => {
    if (text) found.push({ text, look: [look.bold && "bold", look.colour].filter(Boolean).join(" ") });
  };
  for (const one of line.matchAll(SEQUENCE)) {
    add(line.slice(end, one.index));
    end = one.index + one[0].length;
    if (one[2] === "m") look = follow(look, (one[1] ?? "").split(";").map(Number));
  }
  add(line.slice(end));
  return found;
}

/** The line without them. */
export const withoutColours = (line: string): string => line.replaceAll(SEQUENCE, "");
