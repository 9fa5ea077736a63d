// Keys. Single letters do something only where nobody types, and can be turned off (WCAG 2.1.4).
import { signal } from "@preact/signals";

type Action = (event: KeyboardEvent) => void;

const KEEP = "letters";

function readKept(): boolean {
  try {
    return localStorage.getItem(KEEP) !== "off";
  } catch {
    return true;
  }
}

export const letters = signal(readKept());

export function keepLetters(on: boolean): void {
  letters.value = on;
  try {
    localStorage.setItem(KEEP, on ? "on" : "off");
  } catch {
    // it is kept until the page is closed
  }
}

const actions: Map<string, Action>[] = [];

/** Keys of a screen, for as long as it is shown; the newest screen is asked first. Returns what ends that. Called in a layout
 * effect: what is seen can be used, and an effect would come after the first picture. */
export function onKeys(named: Readonly<Record<string, Action>>): () => void {
  const own = new Map(Object.entries(named));
  actions.unshift(own);
  return () => {
    actions.splice(actions.indexOf(own), 1);
  };
}

let prefix = "";
let prefixAt = 0;

function isTyping(target: EventTarget | null): boolean {
  return (
    target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName))
  );
}

function press(event: KeyboardEvent): void {
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
  if (isTyping(event.target) || document.querySelector("dialog[open]")) return;
  if (event.key.length === 1 && !letters.peek()) return;
  const key = prefix && event.timeStamp - prefixAt < 1500 ? `${prefix} ${event.key}` : event.key;
  prefix = event.key === "g" && key === "g" ? "g" : "";
  prefixAt = event.timeStamp;
  for (const own of actions) {
    const action = own.get(key);
    if (action) {
      event.preventDefault();
      action(event);
      return;
    }
  }
}

export function listenToKeys(): void {
  document.addEventListener("keydown", press);
}
