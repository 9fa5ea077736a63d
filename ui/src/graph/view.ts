// The graph on a canvas: it draws only what is in view, and only when something changed.
import type { Fate, Fates } from "../film/film.ts";
import { groupOf } from "../kit/states.ts";
import type { NodeView } from "../screens/run/store.ts";
import { type Brush, drawBox, drawRing, sayState } from "./boxes.ts";
import { Minimap } from "./minimap.ts";
import { type Box, boundsOf, contains, DONE, type Drawing, fateIn, Grid, type Rect, type Wire } from "./model.ts";
import { Motion } from "./motion.ts";
import { type Palette, readPalette } from "./palette.ts";
import { sharesOf } from "./shares.ts";
import { drawHead, drawLabel } from "./wires.ts";

const CELL = 600;
const MOST_WIRES_FAR = 6000;
/** From this size on dots are seen on wires, and so often they are drawn. */
const LEAST_MOVING = 0.4;
const MOVING_MS = 33;
const LEAST_SCALE = 0.02;
const MOST_SCALE = 3;
/** Of a larger graph it is not looked which wires the run went along just now. */
const MOST_MOVING = 2000;
/** The longest side of a picture to keep, and its size, in pixels. */
const MOST_SIDE = 12_000;
const MOST_PIXELS = 40_000_000;
/** What a stack shows of its nodes. */
const LOUDEST: readonly string[] = "failed parked running queued retrying held waiting pending".split(" ");

export class GraphView {
  readonly #canvas: HTMLCanvasElement;
  #pen: CanvasRenderingContext2D;
  #drawing: Drawing = { width: 0, height: 0, boxes: [], wires: [] };
  #nodes: ReadonlyMap<string, NodeView> = new Map();
  #fates: Fates | undefined;
  #boxes = new Grid<Box>(CELL);
  #wires = new Grid<Wire>(CELL);
  #paths = new Map<Wire, Path2D>();
  #byId = new Map<string, Box>();
  readonly #map = new Minimap();
  #palette: Palette;
  #scale = 1;
  #x = 0;
  #y = 0;
  #frame = 0;
  /** Whether somebody has moved it. */
  isMoved = false;
  readonly #motion = new Motion();
  #timer: ReturnType<typeof setTimeout> | undefined;
  #lively = false;
  chosen = "";
  /** Nodes that are done are not drawn. */
  #sparse = false;
  /** How often it was drawn, for tests: a page on which nothing changes draws nothing. */
  drawn = 0;

  constructor(canvas: HTMLCanvasElement) {
    this.#canvas = canvas;
    this.#pen = canvas.getContext("2d")!;
    this.#palette = readPalette(canvas);
  }

  show(drawing: Drawing): void {
    this.#drawing = drawing;
    this.#boxes = new Grid(CELL);
    this.#wires = new Grid(CELL);
    this.#paths.clear();
    this.#motion.forget();
    this.#byId.clear();
    for (const box of drawing.boxes) {
      this.#boxes.add(box, box.place);
      this.#byId.set(box.id, box);
      for (const member of box.members) this.#byId.set(member, box);
    }
    for (const wire of drawing.wires) this.#wires.add(wire, boundsOf(wire));
    this.#map.show(drawing);
    if (!this.isMoved) this.fit();
    this.redraw();
  }

  /** What the nodes are, and what became of the edges; without the latter it is read from the nodes. */
  mark(nodes: ReadonlyMap<string, NodeView>, fates?: Fates): void {
    const wires = this.#lively && this.#nodes.size ? this.#drawing.wires : [];
    const open = wires.length > MOST_MOVING ? [] : wires.filter((wire) => this.#fateOf(wire) !== "taken");
    this.#nodes = nodes;
    this.#fates = fates;
    this.#motion.send(
      open.filter((wire) => this.#fateOf(wire) === "taken"),
      performance.now(),
    );
    this.redraw();
  }

  /** Whether what happens is shown as movement: of a run as it is now, to who did not ask for less of it. */
  enliven(on: boolean): void {
    this.#lively = on;
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
    if (!this.isMoved) this.fit();
    this.redraw();
  }

  get room(): { readonly width: number; readonly height: number } {
    return { width: this.#canvas.clientWidth, height: this.#canvas.clientHeight };
  }

  /** Whether the boxes are large enough to be read. */
  get isReadable(): boolean {
    return this.#scale >= 0.55;
  }

  fit(): void {
    const { clientWidth, clientHeight } = this.#canvas;
    const { x, y, width, height } = this.#sparse ? this.#boundsOfOpen() : { x: 0, y: 0, ...this.#drawing };
    if (!width || !clientWidth) return;
    const fitting = Math.min((clientWidth - 24) / width, (clientHeight - 24) / height, 1.15);
    this.#scale = Math.max(LEAST_SCALE, Math.min(MOST_SCALE, fitting));
    this.#x = (clientWidth - width * this.#scale) / 2 - x * this.#scale;
    this.#y = Math.max(12, (clientHeight - height * this.#scale) / 2) - y * this.#scale;
    this.isMoved = false;
    this.redraw();
  }

  /** Show only what is not done, or everything again. */
  spare(on: boolean): void {
    if (on === this.#sparse) return;
    this.#sparse = on;
    this.fit();
  }

  #boundsOfOpen(): Rect {
    const open = this.#drawing.boxes.filter((box) => !this.#isHidden(box)).map((box) => box.place);
    if (!open.length) return { x: 0, y: 0, width: this.#drawing.width, height: this.#drawing.height };
    const x = Math.min(...open.map((place) => place.x)) - 20;
    const y = Math.min(...open.map((place) => place.y)) - 20;
    const right = Math.max(...open.map((place) => place.x + place.width)) + 20;
    const bottom = Math.max(...open.map((place) => place.y + place.height)) + 20;
    return { x, y, width: right - x, height: bottom - y };
  }

  #isHidden(box: Box | undefined): boolean {
    return this.#sparse && box !== undefined && DONE.has(this.#stateOf(box));
  }

  /** The whole graph as a picture of its own, as large as a file may sensibly be. */
  async picture(): Promise<Blob | null> {
    const { width, height } = this.#drawing;
    const scale = Math.min(2, MOST_SIDE / Math.max(width, height), Math.sqrt(MOST_PIXELS / (width * height)));
    const paper = document.createElement("canvas");
    paper.width = Math.max(1, Math.ceil(width * scale));
    paper.height = Math.max(1, Math.ceil(height * scale));
    const [pen, before] = [this.#pen, this.#scale];
    this.#pen = paper.getContext("2d")!;
    this.#scale = scale;
    this.#pen.fillStyle = this.#palette.ground;
    this.#pen.fillRect(0, 0, paper.width, paper.height);
    this.#pen.setTransform(scale, 0, 0, scale, 0, 0);
    this.#drawAll({ x: 0, y: 0, width, height });
    this.#pen = pen;
    this.#scale = before;
    return new Promise((done) => paper.toBlob(done, "image/png"));
  }

  /** The box that a node is drawn in, and where that is in the picture as it is seen now. */
  whereabouts(id: string): { readonly box: Box; readonly at: Rect } | undefined {
    const box = this.#byId.get(id);
    if (!box || this.#isHidden(box)) return undefined;
    const { x, y, width, height } = box.place;
    const scale = this.#scale;
    const at = { x: x * scale + this.#x, y: y * scale + this.#y, width: width * scale, height: height * scale };
    const { clientWidth, clientHeight } = this.#canvas;
    const isSeen = at.x < clientWidth && at.y < clientHeight && at.x + at.width > 0 && at.y + at.height > 0;
    return isSeen ? { box, at } : undefined;
  }

  zoom(factor: number, x = this.#canvas.clientWidth / 2, y = this.#canvas.clientHeight / 2): void {
    const next = Math.max(LEAST_SCALE, Math.min(MOST_SCALE, this.#scale * factor));
    const real = next / this.#scale;
    this.#x = x - (x - this.#x) * real;
    this.#y = y - (y - this.#y) * real;
    this.#scale = next;
    this.isMoved = true;
    this.redraw();
  }

  actualSize(): void {
    this.zoom(1 / this.#scale);
  }

  pan(x: number, y: number): void {
    this.#x += x;
    this.#y += y;
    this.isMoved = true;
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
    this.isMoved = true;
    this.redraw();
  }

  at(x: number, y: number): Box | undefined {
    const left = (x - this.#x) / this.#scale;
    const top = (y - this.#y) / this.#scale;
    const near = this.#boxes.find({ x: left, y: top, width: 0, height: 0 });
    return [...near].find((box) => contains(box.place, left, top) && !this.#isHidden(box));
  }

  redraw(): void {
    if (!this.#frame) this.#frame = requestAnimationFrame(() => this.#draw());
  }

  stop(): void {
    cancelAnimationFrame(this.#frame);
    clearTimeout(this.#timer);
  }

  #draw(): void {
    this.#frame = 0;
    this.drawn += 1;
    this.#canvas.dataset.scale = this.#scale.toFixed(2);
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
    this.#drawAll(view);
    this.#drawDots(view);
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    const { clientWidth: width, clientHeight: height } = this.#canvas;
    this.#map.draw(pen, { width, height }, view, this.#palette, (box) => this.#stateOf(box));
  }

  #drawAll(view: Rect): void {
    this.#drawWires(this.#wires.find(view));
    const boxes = [...this.#boxes.find(view)].filter((box) => !this.#isHidden(box));
    if (this.#scale < 0.4) this.#drawFar(boxes);
    else for (const box of boxes) this.#drawBox(box);
  }

  #drawDots(view: Rect): void {
    clearTimeout(this.#timer);
    const moves = this.#lively && this.#scale >= LEAST_MOVING && this.#drawMoving(view);
    this.#canvas.dataset.moving = String(moves);
    if (moves) this.#timer = setTimeout(() => this.redraw(), MOVING_MS);
  }

  /** Whether any of them goes on. */
  #drawMoving(view: Rect): boolean {
    const wires = [...this.#wires.find(view)].filter((wire) => !this.#isHidden(this.#byId.get(wire.to)));
    const pen = this.#pen;
    pen.fillStyle = this.#palette.states.busy!.border;
    for (const { x, y } of this.#motion.dots(wires, performance.now(), (wire) => this.#isUsed(wire))) {
      pen.beginPath();
      pen.arc(x, y, 4, 0, 7);
      pen.fill();
    }
    return this.#motion.moves;
  }

  /** Whether the node at the end of a wire is executed with what came along it, or still comes. */
  #isUsed(wire: Wire): boolean {
    const [source, target] = [this.#byId.get(wire.from), this.#byId.get(wire.to)];
    if (!source || !target || this.#stateOf(target) !== "running") return false;
    return this.#fateOf(wire) === "taken" || (source !== target && this.#stateOf(source) === "running");
  }

  /** Where the small map of the whole is under the pointer, that part comes into the middle. */
  jump(x: number, y: number): boolean {
    const wanted = this.#map.at(x, y);
    if (!wanted) return false;
    this.#x = this.#canvas.clientWidth / 2 - wanted.x * this.#scale;
    this.#y = this.#canvas.clientHeight / 2 - wanted.y * this.#scale;
    this.isMoved = true;
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
      if (this.#sparse && (this.#isHidden(this.#byId.get(wire.from)) || this.#isHidden(this.#byId.get(wire.to))))
        continue;
      const fate = this.#fateOf(wire);
      const colour = this.#wireColour(wire, fate);
      pen.globalAlpha = fate === "skipped" ? 0.4 : fate === "open" ? 0.75 : 1;
      pen.strokeStyle = colour;
      pen.lineWidth = (fate === "taken" ? 2 : 1.4) * (far ? 1.6 : 1);
      pen.setLineDash(wire.kind === "failure" ? [5, 4] : wire.kind === "back" ? [2, 4] : []);
      pen.stroke(this.#pathOf(wire));
      if (!far) drawHead(pen, wire, colour);
      pen.globalAlpha = 1; // words are read, whatever became of the edge
      if (this.#scale >= 0.55 && wire.label && wire.label_place)
        drawLabel(pen, wire.label, wire.label_place, this.#palette);
    }
    pen.setLineDash([]);
    pen.globalAlpha = 1;
  }

  #fateOf(wire: Wire): Fate {
    return fateIn(wire, (id) => this.#byId.get(id)?.members ?? [], this.#nodes, this.#fates);
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

  #drawFar(boxes: readonly Box[]): void {
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
    if (chosen) drawRing(this.#brush(), chosen);
  }

  /** What a box is drawn with now. */
  #brush(): Brush {
    return { pen: this.#pen, palette: this.#palette, scale: this.#scale };
  }

  #drawBox(box: Box): void {
    const state = this.#stateOf(box);
    drawBox(this.#brush(), box, state, {
      said: sayState(state, box.members.length ? undefined : this.#nodes.get(box.id)),
      shares: sharesOf(box, this.#nodes),
      chosen: box === this.#byId.get(this.chosen),
      visit: box.members.length ? 0 : (this.#nodes.get(box.id)?.visit ?? 0),
    });
  }
}
