// The text of a definition, in an editor that has a document of its own (a shadow root): its styles are sheets there, as the policy asks.
import { defaultKeymap, history, historyKeymap, indentWithTab } from "@codemirror/commands";
import { yaml } from "@codemirror/lang-yaml";
import { HighlightStyle, syntaxHighlighting } from "@codemirror/language";
import { type Diagnostic, setDiagnostics } from "@codemirror/lint";
import { EditorState } from "@codemirror/state";
import { EditorView, keymap, lineNumbers } from "@codemirror/view";
import { tags } from "@lezer/highlight";
import type { RefObject } from "preact";
import { useEffect, useRef } from "preact/hooks";

export interface Trouble {
  readonly line: number;
  readonly message: string;
  readonly severe: boolean;
}

export interface CodeHandle {
  /** Put another text in: one step that can be undone. */
  replace: (text: string) => void;
  show: (troubles: readonly Trouble[]) => void;
  goTo: (line: number) => void;
}

const colours = HighlightStyle.define([
  { tag: tags.propertyName, color: "var(--accent)" },
  { tag: [tags.string, tags.content], color: "var(--text)" },
  { tag: [tags.number, tags.bool, tags.null], color: "var(--waits-text)" },
  { tag: tags.comment, color: "var(--dim)", fontStyle: "italic" },
  { tag: [tags.punctuation, tags.separator], color: "var(--dim)" },
]);

const look = EditorView.theme({
  "&": { color: "var(--text)", backgroundColor: "var(--ground)", height: "100%", fontSize: "13px" },
  ".cm-scroller": { fontFamily: "var(--mono)", lineHeight: "1.5" },
  ".cm-content": { caretColor: "var(--text)" },
  ".cm-gutters": { backgroundColor: "var(--paper)", color: "var(--dim)", border: "none" },
  ".cm-cursor": { borderLeftColor: "var(--text)" },
  "&.cm-focused": { outline: "2px solid var(--accent)", outlineOffset: "-2px" },
  ".cm-selectionBackground, &.cm-focused .cm-selectionBackground": { backgroundColor: "var(--busy-ground)" },
  // Without pictures in addresses, which the policy forbids.
  ".cm-lintRange-error": { backgroundImage: "none", textDecoration: "underline wavy var(--bad-border)" },
  ".cm-lintRange-warning": { backgroundImage: "none", textDecoration: "underline wavy var(--waits-border)" },
  ".cm-tooltip": { backgroundColor: "var(--ground)", color: "var(--text)", border: "1px solid var(--line)" },
});

interface Given {
  text: string;
  label: string;
  onChange: (text: string) => void;
  handle: RefObject<CodeHandle | null>;
}

export function Code({ text, label, onChange, handle }: Given) {
  const host = useRef<HTMLDivElement>(null);
  const heard = useRef(onChange);
  heard.current = onChange;
  useEffect(() => {
    const root = host.current!.attachShadow({ mode: "open" });
    const parent = document.createElement("div");
    parent.style.height = "100%";
    root.append(parent);
    const view = new EditorView({
      root,
      parent,
      state: EditorState.create({
        doc: text,
        extensions: [
          lineNumbers(),
          history(),
          yaml(),
          syntaxHighlighting(colours),
          look,
          // Tab indents; Escape and then Tab leaves, as CodeMirror has it.
          keymap.of([...defaultKeymap, ...historyKeymap, indentWithTab]),
          EditorView.contentAttributes.of({ "aria-label": label }),
          EditorView.updateListener.of((update) => {
            if (update.docChanged) heard.current(update.state.doc.toString());
          }),
        ],
      }),
    });
    // What scrolls can be reached by the keyboard, also where the browser does not do so by itself.
    view.scrollDOM.tabIndex = 0;
    handle.current = handleOf(view);
    return () => {
      handle.current = null;
      view.destroy();
    };
  }, []);
  return <div ref={host} class="code-host" />;
}

function handleOf(view: EditorView): CodeHandle {
  const lineAt = (number: number) => view.state.doc.line(Math.max(1, Math.min(view.state.doc.lines, number)));
  return {
    replace: (text) => {
      if (text === view.state.doc.toString()) return;
      view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: text } });
    },
    show: (troubles) => {
      const found: Diagnostic[] = troubles.map((one) => {
        const { from, to } = lineAt(one.line);
        return { from, to, severity: one.severe ? "error" : "warning", message: one.message };
      });
      view.dispatch(
        setDiagnostics(
          view.state,
          found.sort((one, two) => one.from - two.from),
        ),
      );
    },
    goTo: (line) => {
      const { from } = lineAt(line);
      view.dispatch({ selection: { anchor: from }, effects: EditorView.scrollIntoView(from, { y: "center" }) });
      view.focus();
    },
  };
}
