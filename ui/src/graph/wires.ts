// What stands on a wire: the head at its end and the label beside it.
import type { Rect, Wire } from "./model.ts";
import type { Palette } from "./palette.ts";
import { cutToFit } from "./text.ts";

const MONO = 'ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace';

export function drawHead(pen: CanvasRenderingContext2D, wire: Wire, colour: string): void {
  const last = wire.line.curves.at(-1);
  const [endX = 0, endY = 0] = last?.[2] ?? [];
  const before = [last?.[1], last?.[0], wire.line.curves.at(-2)?.[2], wire.line.start];
  const [fromX = 0, fromY = 0] = before.find((point) => point && (point[0] !== endX || point[1] !== endY)) ?? [];
  const length = Math.hypot(endX - fromX, endY - fromY) || 1;
  const [dx, dy] = [(endX - fromX) / length, (endY - fromY) / length];
  pen.fillStyle = colour;
  pen.beginPath();
  pen.moveTo(endX, endY);
  pen.lineTo(endX - dx * 8 - dy * 3.6, endY - dy * 8 + dx * 3.6);
  pen.lineTo(endX - dx * 8 + dy * 3.6, endY - dy * 8 - dx * 3.6);
  pen.closePath();
  pen.fill();
}

export function drawLabel(pen: CanvasRenderingContext2D, label: string, at: Rect, palette: Palette): void {
  pen.setLineDash([]);
  pen.fillStyle = palette.ground;
  pen.strokeStyle = palette.line;
  pen.lineWidth = 1;
  pen.beginPath();
  pen.roundRect(at.x, at.y, at.width, at.height, 5);
  pen.fill();
  pen.stroke();
  pen.fillStyle = palette.choice;
  pen.font = `10.5px ${MONO}`;
  pen.textAlign = "center";
  const lines = label.split("\n");
  const height = (at.height - 6) / Math.max(1, Math.round((at.height - 6) / 14));
  for (const [index, line] of lines.entries())
    pen.fillText(cutToFit(pen, line, at.width - 8), at.x + at.width / 2, at.y + 3 + height * (index + 0.5) + 3.8);
  pen.textAlign = "start";
}
