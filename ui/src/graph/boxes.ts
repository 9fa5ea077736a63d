// One box on the canvas: its card, icon, words, the bar of what it stands for, and the badge of its state.
import { groupOf, MARKS } from "../kit/states.ts";
import type { NodeView } from "../screens/run/store.ts";
import { words } from "../words/en.ts";
import { ICONS } from "./icons.ts";
import { type Box, itemsOf, type Rect } from "./model.ts";
import type { Palette } from "./palette.ts";
import { drawShares, type Share } from "./shares.ts";
import { cutToFit } from "./text.ts";

const SANS = 'ui-sans-serif, system-ui, -apple-system, "Segoe UI", Roboto, "Open Sans", sans-serif';

export interface Brush {
  readonly pen: CanvasRenderingContext2D;
  readonly palette: Palette;
  readonly scale: number;
}

interface Shown {
  /** The state in words. */
  readonly said: string;
  readonly shares: readonly Share[];
  readonly chosen: boolean;
  /** How often the run came to it. */
  readonly visit: number;
}

export function drawRing({ pen, palette, scale }: Brush, box: Box): void {
  pen.strokeStyle = palette.accent;
  pen.lineWidth = Math.max(2.5, 2.5 / scale);
  pen.beginPath();
  pen.roundRect(box.place.x - 4, box.place.y - 4, box.place.width + 8, box.place.height + 8, 11);
  pen.stroke();
}

export function drawBox(brush: Brush, box: Box, state: string, { said, shares, chosen, visit }: Shown): void {
  const { pen, palette } = brush;
  const { x, y, width, height } = box.place;
  const group = groupOf(state);
  const colours = palette.states[group]!;
  if (box.members.length) {
    for (const step of [6, 3]) drawCard(brush, { x: x + step, y: y + step, width, height }, colours, group);
  }
  drawCard(brush, box.place, colours, group);
  if (chosen) drawRing(brush, box);
  const kind = ICONS[box.type] ? box.type : "other";
  const hue = palette.types[kind]!;
  pen.globalAlpha = group === "none" && state !== "" ? 0.75 : 1;
  const top = y + (height - 22) / 2;
  pen.save();
  pen.globalAlpha *= 0.13;
  pen.fillStyle = hue;
  pen.beginPath();
  pen.roundRect(x + 10.8, top, 22, 22, 6);
  pen.fill();
  pen.restore();
  drawIcon(pen, kind, { x: x + 13.8, y: top + 3, colour: hue, width: 1.6, size: 1 });
  pen.globalAlpha = 1;
  write(brush, box, { said, state: words.states[state] ?? state, colour: colours.text });
  drawShares(pen, box.place, shares, palette);
  if (visit > 1) drawVisits(brush, box.place, words.run.graph.visits(visit), colours);
  if (state) drawBadge(brush, box.place, group, colours);
}

function drawCard(
  { pen, palette }: Brush,
  at: Rect,
  colours: { readonly border: string; readonly ground: string },
  group: string,
): void {
  pen.fillStyle = group === "none" ? palette.ground : colours.ground;
  pen.strokeStyle = group === "none" ? palette.line : colours.border;
  pen.lineWidth = group === "bad" ? 2 : 1.3;
  pen.setLineDash(group === "stopped" ? [3, 3] : []);
  pen.beginPath();
  pen.roundRect(at.x, at.y, at.width, at.height, 8);
  pen.fill();
  pen.stroke();
  pen.setLineDash([]);
}

/** The state, with how far a map is, or which attempt it is where there was more than one. */
export function sayState(state: string, node: NodeView | undefined): string {
  const said = words.states[state] ?? state;
  if (!node || !said) return said;
  const { completed, failed, all } = itemsOf(node);
  if (all) return words.run.graph.progress(said, completed, all, failed);
  return node.attempt > 1 ? words.run.graph.attempt(said, node.attempt) : said;
}

interface Said {
  /** The state, and what there is to say of it where there is room. */
  readonly said: string;
  readonly state: string;
  readonly colour: string;
}

function write({ pen, palette, scale }: Brush, box: Box, { said, state, colour }: Said): void {
  const left = box.place.x + 40.6;
  const room = box.place.width - 43;
  const middle = box.place.y + box.place.height / 2;
  pen.font = `600 13px ${SANS}`;
  pen.fillStyle = palette.title;
  const title = box.members.length ? words.run.graph.stack(box.members.length) : box.id;
  const lines = scale >= 0.55 ? linesOf(box, said) : [];
  let y = middle - (lines.length * 14.7) / 2 + 4.5;
  pen.fillText(cutToFit(pen, title, room), left, y);
  for (const line of lines) {
    y += 14.7;
    pen.font = line === said ? `600 11px ${SANS}` : `11px ${SANS}`;
    pen.fillStyle = line === said ? colour : palette.soft;
    if (line === said) writeState(pen, [said, state], room, left, y);
    else pen.fillText(cutToFit(pen, line, room), left, y);
  }
}

/** A state is read as a whole: where there is no room for all of it, without what is said of it, and narrower if need be. */
function writeState(pen: CanvasRenderingContext2D, said: readonly string[], room: number, x: number, y: number): void {
  const text = said.find((one) => pen.measureText(one).width <= room) ?? said.at(-1)!;
  pen.fillText(text, x, y, room);
}

/** As many lines as the server made room for: what state the node is in comes before what it is about. */
function linesOf(box: Box, state: string): string[] {
  const room = Math.max(1, Math.round((box.place.height - 18) / 14.7) - 1);
  const said = [state, box.members.length ? box.id : box.detail, ...box.notes].filter(Boolean);
  return said.slice(0, room);
}

function drawBadge(
  { pen, palette }: Brush,
  at: Rect,
  group: string,
  colours: { readonly border: string; readonly ground: string; readonly text: string },
): void {
  const [x, y] = [at.x + at.width - 3, at.y + 3];
  pen.fillStyle = group === "none" ? palette.ground : colours.ground;
  pen.strokeStyle = colours.border;
  pen.lineWidth = 1.3;
  pen.beginPath();
  pen.arc(x, y, 8.5, 0, 7);
  pen.fill();
  pen.stroke();
  drawIcon(pen, group, { x: x - 4.8, y: y - 4.8, colour: colours.text, width: 2.4, size: 0.6 });
}

/** How often the run came here, on the other corner than the state. */
function drawVisits(
  { pen, palette }: Brush,
  at: Rect,
  said: string,
  colours: { readonly border: string; readonly text: string },
): void {
  pen.font = `600 10.5px ${SANS}`;
  const wide = pen.measureText(said).width + 12;
  pen.fillStyle = palette.ground;
  pen.strokeStyle = colours.border;
  pen.lineWidth = 1.3;
  pen.beginPath();
  pen.roundRect(at.x - 6, at.y - 8, wide, 17, 8.5);
  pen.fill();
  pen.stroke();
  pen.fillStyle = colours.text;
  pen.fillText(said, at.x, at.y + 4.3);
}

interface Stroke {
  readonly x: number;
  readonly y: number;
  readonly colour: string;
  readonly width: number;
  readonly size: number;
}

const paths = new Map<string, Path2D>();

function drawIcon(pen: CanvasRenderingContext2D, name: string, { x, y, colour, width, size }: Stroke): void {
  let path = paths.get(name);
  if (!path) {
    path = new Path2D(ICONS[name] ?? (MARKS as Readonly<Record<string, string>>)[name] ?? "");
    paths.set(name, path);
  }
  pen.save();
  pen.translate(x, y);
  pen.scale(size, size);
  pen.strokeStyle = colour;
  pen.lineWidth = width;
  pen.lineCap = "round";
  pen.lineJoin = "round";
  pen.stroke(path);
  pen.restore();
}
