// The texts of looking into a file, of keeping it, and of the files that outlive their run.
import { number } from "./en.ts";

export const files = {
  title: "Assets",
  empty: "It is empty.",
  begins: (shown: number, all: number) => `The first ${number(shown)} of ${number(all)} bytes.`,
  small: "A small version, which a plug-in made.",
  picture: (name: string) => `Picture ${name}`,
  text: "Content as text",
  hex: "Content as bytes",
  keepSheet: {
    title: (name: string) => `Keep ${name}`,
    does: "The file becomes the next version of a name, and outlives this run.",
    name: "Name",
    needs: "Say under which name.",
    verb: "Keep",
    done: (name: string, version: number) => `Kept as ${name}, version ${number(version)}.`,
    list: "All assets",
  },
  list: {
    filter: "Name",
    filterHint: "a whole name",
    columns: {
      name: "Name",
      version: "Version",
      type: "Type",
      size: "Size",
      from: "From",
      kept: "Kept",
      actions: "Actions",
    },
    uploaded: "uploaded",
    by: (name: string) => `by ${name}`,
    none: {
      title: "No file is kept",
      text: "Files that functions give are kept as long as a run names them. Promote one, and it outlives its run as a version of a name:",
      filtered: "No file has this name",
      command: "perdure assets promote RUN NODE --as NAME",
    },
    more: "Show more",
    remove: "Delete",
    removeTitle: (name: string, version: number) => `Delete version ${number(version)} of ${name}?`,
    removeDoes:
      "The version is gone, and its number is not given again. The content goes with the next collection, unless a run names it. This cannot be undone.",
    removed: "Deleted.",
  },
} as const;
