// The graph on a canvas: it draws only what is in view, and only when something changed.
import type { Fate, Fates } from "../film/film.ts";
import { groupOf, MARKS } from "../kit/states.ts";
import type { NodeView } from "../screens/run/store.ts";
import { words } from "../words/en.ts";
import { ICONS } from "./icons.ts";
import { Minimap } from "./minimap.ts";
import { type Box, boundsOf, contains, type Drawing, fateOf, Grid, type Rect, type Wire } from "./model.ts";
import { type Palette, readPalette } from "./palette.ts";
import { cutToFit } from "./text.ts";
import { drawHead, drawLabel } from "./wires.ts";

const CELL = 600;
const MOST_WIRES_FAR = 6000;
const LEAST_SCALE = 0.02;
const MOST_SCALE = 3;
/** What a stack shows of its nodes. */
const LOUDEST: readonly string[] = "failed parked running queued retrying held waiting pending".split(" ");
const SANS = 'ui-sans-serif, system-ui, -apple-system, "Segoe UI", Roboto, "Open Sans", sans-serif';

export class GraphView {
  readonly #canvas: HTMLCanvasElement;
  readonly #pen: CanvasRenderingContext2D;
  #drawing: Drawing = { width: 0, height: 0, boxes: [], wires: [] };
  #nodes: ReadonlyMap<string, NodeView> = new Map();
  #fates: Fates | undefined;
  #boxes = new Grid<Box>(CELL);
  #wires = new Grid<Wire>(CELL);
  #paths = new Map<Wire, Path2D>();
  #byId = new Map<string, Box>();
  #icons = new Map<string, Path2D>();
  readonly #map = new Minimap();
  #palette: Palette;
  #scale = 1;
  #x = 0;
  #y = 0;
  #frame = 0;
  #touched = false;
  chosen = "";
  hovered = "";
  /** How often it was drawn, for tests: a page on which nothing changes draws nothing. */
  drawn = 0;

  constructor(canvas: HTMLCanvasElement) {
    this.#canvas = canvas;
    this.#pen = canvas.getContext("2d")!;
    this.#palette = readPalette(canvas);
    for (const [name, path] of [...Object.entries(ICONS), ...Object.entries(MARKS)])
      this.#icons.set(name, new Path2D(path));
  }

  show(drawing: Drawing): void {
    this.#drawing = drawing;
    this.#boxes = new Grid(CELL);
    this.#wires = new Grid(CELL);
    this.#paths.clear();
    this.#byId.clear();
    for (const box of drawing.boxes) {
      this.#boxes.add(box, box.place);
      this.#byId.set(box.id, box);
      for (const member of box.members) this.#byId.set(member, box);
    }
    for (const wire of drawing.wires) this.#wires.add(wire, boundsOf(wire));
    this.#map.show(drawing);
    if (!this.#touched) this.fit();
    this.redraw();
  }

  /** What the nodes are, and what became of the edges; without the latter it is read from the nodes. */
  mark(nodes: ReadonlyMap<string, NodeView>, fates?: Fates): void {
    this.#nodes = nodes;
    this.#fates = fates;
    this.redraw();
  }

  recolour(): void {
    this.#palette = readPalette(this.#canvas);
    this.redraw();
  }

  resize(): void {
    const ratio = devicePixelRatio || 1;
    const { clientWidth, clientHeight } = this.#canvas;
    this.#canvas.width = Math.max(1, Math.round(clientWidth * ratio));
    this.#canvas.height = Math.max(1, Math.round(clientHeight * ratio));
    if (!this.#touched) this.fit();
    this.redraw();
  }

  get scale(): number {
    return this.#scale;
  }

  fit(): void {
    const { clientWidth, clientHeight } = this.#canvas;
    const { width, height } = this.#drawing;
    if (!width || !clientWidth) return;
    const fitting = Math.min((clientWidth - 24) / width, (clientHeight - 24) / height, 1.15);
    this.#scale = Math.max(LEAST_SCALE, Math.min(MOST_SCALE, fitting));
    this.#x = (clientWidth - width * this.#scale) / 2;
    this.#y = Math.max(12, (clientHeight - height * this.#scale) / 2);
    this.#touched = false;
    this.redraw();
  }

  zoom(factor: number, x = this.#canvas.clientWidth / 2, y = this.#canvas.clientHeight / 2): void {
    const next = Math.max(LEAST_SCALE, Math.min(MOST_SCALE, this.#scale * factor));
    const real = next / this.#scale;
    this.#x = x - (x - this.#x) * real;
    this.#y = y - (y - this.#y) * real;
    this.#scale = next;
    this.#touched = true;
    this.redraw();
  }

  actualSize(): void {
    this.zoom(1 / this.#scale);
  }

  pan(x: number, y: number): void {
    this.#x += x;
    this.#y += y;
    this.#touched = true;
    this.redraw();
  }

  /** Bring a node into view, and make it large enough to read. */
  reveal(id: string): void {
    const box = this.#byId.get(id);
    if (!box) return;
    const { clientWidth, clientHeight } = this.#canvas;
    const scale = Math.max(this.#scale, 0.8);
    const left = box.place.x * this.#scale + this.#x;
    const top = box.place.y * this.#scale + this.#y;
    const seen = left >= 0 && top >= 0 && left + box.place.width * this.#scale <= clientWidth;
    if (seen && top + box.place.height * this.#scale <= clientHeight && this.#scale >= 0.45) return;
    this.#scale = scale;
    this.#x = clientWidth / 2 - (box.place.x + box.place.width / 2) * scale;
    this.#y = clientHeight / 2 - (box.place.y + box.place.height / 2) * scale;
    this.#touched = true;
    this.redraw();
  }

  at(x: number, y: number): Box | undefined {
    const left = (x - this.#x) / this.#scale;
    const top = (y - this.#y) / this.#scale;
    const near = this.#boxes.find({ x: left, y: top, width: 0, height: 0 });
    return [...near].find((box) => contains(box.place, left, top));
  }

  redraw(): void {
    if (!this.#frame) this.#frame = requestAnimationFrame(() => this.#draw());
  }

  stop(): void {
    cancelAnimationFrame(this.#frame);
  }

  #draw(): void {
    this.#frame = 0;
    this.drawn += 1;
    const pen = this.#pen;
    const ratio = devicePixelRatio || 1;
    pen.setTransform(1, 0, 0, 1, 0, 0);
    pen.clearRect(0, 0, this.#canvas.width, this.#canvas.height);
    const scale = this.#scale * ratio;
    pen.setTransform(scale, 0, 0, scale, this.#x * ratio, this.#y * ratio);
    const view: Rect = {
      x: -this.#x / this.#scale,
      y: -this.#y / this.#scale,
      width: this.#canvas.clientWidth / this.#scale,
      height: this.#canvas.clientHeight / this.#scale,
    };
    this.#drawWires(this.#wires.find(view));
    const boxes = this.#boxes.find(view);
    if (this.#scale < 0.4) this.#drawFar(boxes);
    else for (const box of boxes) this.#drawBox(box);
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    const { clientWidth: width, clientHeight: height } = this.#canvas;
    this.#map.draw(pen, { width, height }, view, this.#palette, (box) => this.#stateOf(box));
  }

  /** Where the small map of the whole is under the pointer, that part comes into the middle. */
  jump(x: number, y: number): boolean {
    const wanted = this.#map.at(x, y);
    if (!wanted) return false;
    this.#x = this.#canvas.clientWidth / 2 - wanted.x * this.#scale;
    this.#y = this.#canvas.clientHeight / 2 - wanted.y * this.#scale;
    this.#touched = true;
    this.redraw();
    return true;
  }

  #pathOf(wire: Wire): Path2D {
    let path = this.#paths.get(wire);
    if (!path) {
      path = new Path2D();
      const [x = 0, y = 0] = wire.line.start;
      path.moveTo(x, y);
      for (const [first, second, end] of wire.line.curves)
        path.bezierCurveTo(first![0]!, first![1]!, second![0]!, second![1]!, end![0]!, end![1]!);
      this.#paths.set(wire, path);
    }
    return path;
  }

  #drawWires(wires: ReadonlySet<Wire>): void {
    const pen = this.#pen;
    const far = this.#scale < 0.4;
    const step = far && wires.size > MOST_WIRES_FAR ? Math.ceil(wires.size / MOST_WIRES_FAR) : 1;
    let index = 0;
    for (const wire of wires) {
      if (index++ % step) continue;
      const fate = this.#fateOf(wire);
      const colour = this.#wireColour(wire, fate);
      pen.globalAlpha = fate === "skipped" ? 0.4 : fate === "open" ? 0.75 : 1;
      pen.strokeStyle = colour;
      pen.lineWidth = (fate === "taken" ? 2 : 1.4) * (far ? 1.6 : 1);
      pen.setLineDash(wire.kind === "failure" ? [5, 4] : wire.kind === "back" ? [2, 4] : []);
      pen.stroke(this.#pathOf(wire));
      if (!far) drawHead(pen, wire, colour);
      if (this.#scale >= 0.55 && wire.label && wire.label_place)
        drawLabel(pen, wire.label, wire.label_place, this.#palette);
    }
    pen.setLineDash([]);
    pen.globalAlpha = 1;
  }

  #fateOf(wire: Wire): Fate {
    if (this.#fates) return this.#fates(wire.from, wire.to);
    return this.#nodes.size ? fateOf(wire, this.#nodes) : "open";
  }

  #wireColour(wire: Wire, fate: Fate): string {
    if (fate === "taken") return wire.kind === "failure" ? this.#palette.failure : this.#palette.choice;
    return this.#palette.arrow;
  }

  #stateOf(box: Box): string {
    if (!box.members.length) return this.#nodes.get(box.id)?.state ?? "";
    const found = new Set<string>(box.members.map((member) => this.#nodes.get(member)?.state ?? ""));
    return LOUDEST.find((state) => found.has(state)) ?? this.#nodes.get(box.members[0]!)?.state ?? "";
  }

  #drawFar(boxes: ReadonlySet<Box>): void {
    const pen = this.#pen;
    const groups = new Map<string, Box[]>();
    for (const box of boxes) {
      const group = groupOf(this.#stateOf(box));
      const same = groups.get(group);
      if (same) same.push(box);
      else groups.set(group, [box]);
    }
    for (const [group, same] of groups) {
      const colours = this.#palette.states[group]!;
      pen.fillStyle = colours.ground;
      pen.strokeStyle = colours.border;
      pen.lineWidth = 2;
      pen.beginPath();
      for (const box of same) pen.rect(box.place.x, box.place.y, box.place.width, box.place.height);
      pen.fill();
      pen.stroke();
    }
    const chosen = this.#byId.get(this.chosen);
    if (chosen) this.#ring(chosen);
  }

  #ring(box: Box): void {
    const pen = this.#pen;
    pen.strokeStyle = this.#palette.accent;
    pen.lineWidth = Math.max(2.5, 2.5 / this.#scale);
    pen.beginPath();
    pen.roundRect(box.place.x - 4, box.place.y - 4, box.place.width + 8, box.place.height + 8, 11);
    pen.stroke();
  }

  #drawBox(box: Box): void {
    const pen = this.#pen;
    const { x, y, width, height } = box.place;
    const state = this.#stateOf(box);
    const group = groupOf(state);
    const colours = this.#palette.states[group]!;
    if (box.members.length) {
      for (const step of [6, 3]) this.#card({ x: x + step, y: y + step, width, height }, colours, group);
    }
    this.#card(box.place, colours, group);
    if (box === this.#byId.get(this.chosen)) this.#ring(box);
    const kind = ICONS[box.type] ? box.type : "other";
    const hue = this.#palette.types[kind]!;
    pen.globalAlpha = group === "none" && state !== "" ? 0.75 : 1;
    const top = y + (height - 22) / 2;
    pen.save();
    pen.globalAlpha *= 0.13;
    pen.fillStyle = hue;
    pen.beginPath();
    pen.roundRect(x + 10.8, top, 22, 22, 6);
    pen.fill();
    pen.restore();
    this.#icon(kind, x + 13.8, top + 3, hue, 1.6, 1);
    pen.globalAlpha = 1;
    this.#write(box, state, colours.text);
    if (state) this.#badge(box.place, group, colours);
  }

  #card(at: Rect, colours: { border: string; ground: string }, group: string): void {
    const pen = this.#pen;
    pen.fillStyle = group === "none" ? this.#palette.ground : colours.ground;
    pen.strokeStyle = group === "none" ? this.#palette.line : colours.border;
    pen.lineWidth = group === "bad" ? 2 : 1.3;
    pen.setLineDash(group === "stopped" ? [3, 3] : []);
    pen.beginPath();
    pen.roundRect(at.x, at.y, at.width, at.height, 8);
    pen.fill();
    pen.stroke();
    pen.setLineDash([]);
  }

  #write(box: Box, state: string, colour: string): void {
    const pen = this.#pen;
    const left = box.place.x + 40.6;
    const room = box.place.width - 46;
    const words_ = words.states[state] ?? state;
    const second = this.#scale >= 0.55;
    const middle = box.place.y + box.place.height / 2;
    pen.font = `600 13px ${SANS}`;
    pen.fillStyle = this.#palette.title;
    const title = box.members.length ? words.run.graph.stack(box.members.length) : box.id;
    const lines = second ? this.#linesOf(box, words_) : [];
    let y = middle - (lines.length * 14.7) / 2 + 4.5;
    pen.fillText(cutToFit(this.#pen, title, room), left, y);
    for (const line of lines) {
      y += 14.7;
      pen.font = line === words_ ? `600 11px ${SANS}` : `11px ${SANS}`;
      pen.fillStyle = line === words_ ? colour : this.#palette.soft;
      pen.fillText(cutToFit(this.#pen, line, room), left, y);
    }
  }

  /** As many lines as the server made room for: what state the node is in comes before what it is about. */
  #linesOf(box: Box, state: string): string[] {
    const room = Math.max(1, Math.round((box.place.height - 18) / 14.7) - 1);
    const said = [state, box.members.length ? box.id : box.detail, ...box.notes].filter(Boolean);
    return said.slice(0, room);
  }

  #badge(at: Rect, group: string, colours: { border: string; ground: string; text: string }): void {
    const pen = this.#pen;
    const [x, y] = [at.x + at.width - 3, at.y + 3];
    pen.fillStyle = group === "none" ? this.#palette.ground : colours.ground;
    pen.strokeStyle = colours.border;
    pen.lineWidth = 1.3;
    pen.beginPath();
    pen.arc(x, y, 8.5, 0, 7);
    pen.fill();
    pen.stroke();
    this.#icon(group, x - 4.8, y - 4.8, colours.text, 2.4, 0.6);
  }

  #icon(name: string, x: number, y: number, colour: string, width: number, size: number): void {
    const pen = this.#pen;
    pen.save();
    pen.translate(x, y);
    pen.scale(size, size);
    pen.strokeStyle = colour;
    pen.lineWidth = width;
    pen.lineCap = "round";
    pen.lineJoin = "round";
    pen.stroke(this.#icons.get(name)!);
    pen.restore();
  }
}
