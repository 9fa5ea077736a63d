// Files that the page makes itself.

const KEPT_MS = 60_000;

/** Hand a file to the browser, which asks the reader where to keep it or keeps it. */
export function saveFile(made: Blob, name: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(made);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), KEPT_MS); // by then it was read
}
