// The timeline on a canvas: lanes with bars, drawn only where they are seen.
import { type Palette, readPalette } from "../graph/palette.ts";
import { cutToFit } from "../graph/text.ts";
import { groupOf } from "../kit/states.ts";
import { type Bar, type Chart, type Piece, placeOn, ticksOf } from "./gantt.ts";

export const LANE = 28;
const SANS = 'ui-sans-serif, system-ui, -apple-system, "Segoe UI", Roboto, "Open Sans", sans-serif';
const HEAD = 26;

export interface Scene {
  readonly chart: Chart;
  readonly axis: readonly Piece[];
  readonly now: number;
  /** The part of the axis in view, from 0 to 1. */
  readonly view: readonly [number, number];
  readonly critical: ReadonlySet<string> | undefined;
  readonly chosen: string;
  /** The moment that the reader looks at. */
  readonly at: number | undefined;
  readonly opened: ReadonlySet<string>;
  readonly label: (lane: Chart["lanes"][number]) => string;
  /** A moment in words; with `whole`, to the second. */
  readonly time: (at: number, whole: boolean) => string;
}

export class TimelineView {
  readonly #canvas: HTMLCanvasElement;
  readonly #pen: CanvasRenderingContext2D;
  #palette: Palette;
  #byLane = new Map<number, Bar[]>();
  #scene: Scene | undefined;
  #frame = 0;
  #top = 0;
  /** While a part is being chosen: from where to where, in pixels. */
  brush: readonly [number, number] | undefined;

  constructor(canvas: HTMLCanvasElement) {
    this.#canvas = canvas;
    this.#pen = canvas.getContext("2d")!;
    this.#palette = readPalette(canvas);
  }

  show(scene: Scene): void {
    if (scene.chart !== this.#scene?.chart) {
      this.#byLane = new Map();
      for (const bar of scene.chart.bars) {
        const known = this.#byLane.get(bar.lane);
        if (known) known.push(bar);
        else this.#byLane.set(bar.lane, [bar]);
      }
    }
    this.#scene = scene;
    this.redraw();
  }

  scroll(top: number): void {
    this.#top = top;
    this.redraw();
  }

  resize(): void {
    const ratio = devicePixelRatio || 1;
    this.#canvas.width = Math.max(1, Math.round(this.#canvas.clientWidth * ratio));
    this.#canvas.height = Math.max(1, Math.round(this.#canvas.clientHeight * ratio));
    this.redraw();
  }

  recolour(): void {
    this.#palette = readPalette(this.#canvas);
    this.redraw();
  }

  stop(): void {
    cancelAnimationFrame(this.#frame);
  }

  redraw(): void {
    if (!this.#frame) this.#frame = requestAnimationFrame(() => this.#draw());
  }

  get #names(): number {
    return this.#canvas.clientWidth < 560 ? 96 : 168;
  }

  laneAt(y: number): number | undefined {
    const lane = Math.floor((y - HEAD + this.#top) / LANE);
    return y >= HEAD && lane >= 0 && lane < (this.#scene?.chart.lanes.length ?? 0) ? lane : undefined;
  }

  /** Whether a point is over the names of the lanes. */
  isName(x: number): boolean {
    return x < this.#names;
  }

  /** The place on the axis at a point. */
  spotAt(x: number): number {
    const [from, to] = this.#scene?.view ?? [0, 1];
    const room = this.#canvas.clientWidth - this.#names - 12;
    return Math.max(0, Math.min(1, from + ((x - this.#names) / Math.max(1, room)) * (to - from)));
  }

  #x(at: number): number {
    const { axis, view } = this.#scene!;
    const room = this.#canvas.clientWidth - this.#names - 12;
    return this.#names + ((placeOn(axis, at) - view[0]) / (view[1] - view[0])) * room;
  }

  #draw(): void {
    this.#frame = 0;
    const scene = this.#scene;
    if (!scene) return;
    const pen = this.#pen;
    const ratio = devicePixelRatio || 1;
    const { clientWidth: width, clientHeight: height } = this.#canvas;
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, width, height);
    pen.save();
    pen.beginPath();
    pen.rect(this.#names, 0, width, height);
    pen.clip();
    this.#drawAxis(scene, width, height);
    pen.beginPath();
    pen.rect(this.#names, HEAD, width, height);
    pen.clip();
    const first = Math.max(0, Math.floor(this.#top / LANE));
    const last = Math.min(scene.chart.lanes.length, Math.ceil((this.#top + height) / LANE));
    for (let lane = first; lane < last; lane++)
      for (const bar of this.#byLane.get(lane) ?? []) this.#drawBar(scene, bar);
    this.#drawMarks(scene, height);
    pen.restore();
    for (let lane = first; lane < last; lane++) this.#drawName(scene, lane);
    pen.fillStyle = this.#palette.line;
    pen.fillRect(0, HEAD - 1, width, 1);
  }

  #drawAxis(scene: Scene, width: number, height: number): void {
    const pen = this.#pen;
    pen.font = `11px ${SANS}`;
    const most = Math.max(2, Math.floor((width - this.#names) / 110));
    const { ticks, step } = ticksOf(scene.axis, scene.view, most);
    for (const { at, spot } of ticks) {
      const x = this.#names + spot * (width - this.#names - 12);
      pen.fillStyle = this.#palette.line;
      pen.fillRect(Math.round(x), HEAD, 1, height);
      pen.fillStyle = this.#palette.soft;
      pen.fillText(scene.time(at, step >= 1000), x + 4, HEAD - 9);
    }
  }

  #drawMarks(scene: Scene, height: number): void {
    const pen = this.#pen;
    for (const piece of scene.axis) {
      if (!piece.cut) continue;
      const middle = (this.#x(piece.from) + this.#x(piece.to)) / 2;
      pen.strokeStyle = this.#palette.soft;
      pen.lineWidth = 1;
      pen.setLineDash([3, 4]);
      for (const step of [-3, 3]) {
        pen.beginPath();
        pen.moveTo(middle + step, HEAD);
        pen.lineTo(middle + step, height);
        pen.stroke();
      }
      pen.setLineDash([]);
    }
    if (scene.at !== undefined) {
      pen.fillStyle = this.#palette.states.waits!.border;
      pen.fillRect(this.#x(scene.at) - 1, HEAD, 2, height);
    }
    if (this.brush) {
      pen.globalAlpha = 0.18;
      pen.fillStyle = this.#palette.accent;
      const [from, to] = this.brush;
      pen.fillRect(Math.min(from, to), HEAD, Math.abs(to - from), height);
      pen.globalAlpha = 1;
    }
  }

  /** Colour says how it ended, the pattern what was done: waiting is hollow, queueing thin, running full. */
  #drawBar(scene: Scene, bar: Bar): void {
    const pen = this.#pen;
    const y = HEAD + bar.lane * LANE - this.#top;
    const from = this.#x(bar.from);
    const width = Math.max(3, this.#x(bar.to ?? scene.now) - from);
    const failed = bar.ended === "retrying" || bar.ended === "parked";
    const state = bar.doing === "running" && bar.ended ? (failed ? "failed" : bar.ended) : bar.doing;
    const colours = this.#palette.states[groupOf(state)] ?? this.#palette.states.none!;
    const lane = scene.chart.lanes[bar.lane]!;
    pen.globalAlpha = scene.critical && !scene.critical.has(lane.node) ? 0.25 : 1;
    pen.fillStyle = bar.doing === "running" ? colours.border : colours.ground;
    pen.strokeStyle = colours.border;
    pen.lineWidth = 1;
    pen.setLineDash(bar.doing === "waiting" || bar.doing === "retrying" ? [3, 3] : []);
    const inset = bar.doing === "queued" ? 10 : 7;
    pen.beginPath();
    pen.roundRect(from, y + inset, width, LANE - 2 * inset, 3);
    pen.fill();
    pen.stroke();
    pen.setLineDash([]);
    pen.globalAlpha = 1;
  }

  /** A triangle before what can be opened, drawn and not written: not every font has one. */
  #drawSign(x: number, y: number, opened: boolean): void {
    const points = opened ? [x, y - 2, x + 8, y - 2, x + 4, y + 3] : [x + 1.5, y - 4, x + 6.5, y, x + 1.5, y + 4];
    const pen = this.#pen;
    pen.beginPath();
    pen.moveTo(points[0]!, points[1]!);
    pen.lineTo(points[2]!, points[3]!);
    pen.lineTo(points[4]!, points[5]!);
    pen.fill();
  }

  #drawName(scene: Scene, lane: number): void {
    const pen = this.#pen;
    const one = scene.chart.lanes[lane]!;
    const y = HEAD + lane * LANE - this.#top;
    if (y < HEAD - LANE) return;
    pen.save();
    pen.beginPath();
    pen.rect(0, HEAD, this.#names, this.#canvas.clientHeight);
    pen.clip();
    pen.fillStyle = one.node === scene.chosen ? this.#palette.accent : this.#palette.title;
    pen.font = `${one.part ? "" : "600 "}12px ${SANS}`;
    const left = one.part ? 28 : 12;
    const room = one.parts ? 14 : 0;
    if (one.parts) this.#drawSign(left, y + LANE / 2, scene.opened.has(one.node));
    pen.fillText(cutToFit(pen, scene.label(one), this.#names - left - room - 8), left + room, y + LANE / 2 + 4);
    pen.restore();
  }
}
