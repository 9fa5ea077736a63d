// The whole graph in a corner, with a frame around what is in view: where it is larger than what can be seen of it.
import { groupOf } from "../kit/states.ts";
import type { Box, Drawing, Rect } from "./model.ts";
import type { Palette } from "./palette.ts";

const WIDTH = 160;
const HEIGHT = 110;
const EDGE = 12;
/** Boxes that are drawn one by one; of more, a part stands for the whole. */
const MOST = 3000;

export class Minimap {
  #drawing: Drawing = { width: 0, height: 0, boxes: [], wires: [] };
  #scale = 0;
  #place: Rect = { x: 0, y: 0, width: 0, height: 0 };

  show(drawing: Drawing): void {
    this.#drawing = drawing;
    const { width, height } = drawing;
    this.#scale = width && height ? Math.min(WIDTH / width, HEIGHT / height) : 0;
  }

  /** Whether a point of the canvas is in it, and what of the graph is there. */
  at(x: number, y: number): { readonly x: number; readonly y: number } | undefined {
    const { x: left, y: top, width, height } = this.#place;
    if (!width || x < left || y < top || x > left + width || y > top + height) return undefined;
    return { x: (x - left) / this.#scale, y: (y - top) / this.#scale };
  }

  draw(
    pen: CanvasRenderingContext2D,
    size: { readonly width: number; readonly height: number },
    view: Rect,
    palette: Palette,
    stateOf: (box: Box) => string,
  ): void {
    const { width, height, boxes } = this.#drawing;
    const isWhole = view.x <= 0 && view.y <= 0 && view.x + view.width >= width && view.y + view.height >= height;
    if (isWhole || !this.#scale || size.width < 480) {
      this.#place = { x: 0, y: 0, width: 0, height: 0 };
      return;
    }
    const scale = this.#scale;
    const wide = width * scale;
    const high = height * scale;
    this.#place = { x: size.width - wide - EDGE, y: size.height - high - EDGE, width: wide, height: high };
    const { x: left, y: top } = this.#place;
    pen.fillStyle = palette.ground;
    pen.strokeStyle = palette.line;
    pen.lineWidth = 1;
    pen.beginPath();
    pen.roundRect(left - 4, top - 4, wide + 8, high + 8, 6);
    pen.fill();
    pen.stroke();
    const step = Math.max(1, Math.ceil(boxes.length / MOST));
    for (let index = 0; index < boxes.length; index += step) {
      const box = boxes[index]!;
      pen.fillStyle = palette.states[groupOf(stateOf(box))]!.border;
      const { place } = box;
      pen.fillRect(
        left + place.x * scale,
        top + place.y * scale,
        Math.max(1.5, place.width * scale),
        Math.max(1.5, place.height * scale),
      );
    }
    const [x, y] = [Math.max(0, view.x), Math.max(0, view.y)];
    const [right, bottom] = [Math.min(width, view.x + view.width), Math.min(height, view.y + view.height)];
    pen.strokeStyle = palette.accent;
    pen.lineWidth = 1.5;
    pen.strokeRect(
      left + x * scale,
      top + y * scale,
      Math.max(4, (right - x) * scale),
      Math.max(4, (bottom - y) * scale),
    );
  }
}
