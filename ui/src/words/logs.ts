// The texts of what functions wrote.

export const logs = {
  label: "Lines that functions wrote",
  empty: "No function of this run wrote anything.",
  emptyNode: "This node wrote nothing.",
  follow: "Follow",
  wrap: "Wrap lines",
  search: "Search",
  searchHint: "text in a line",
  node: "Node",
  anyNode: "every node",
  level: "Level",
  anyLevel: "every level",
  levels: {
    info: "info and louder",
    warning: "warnings and errors",
    error: "errors",
  } as Readonly<Record<string, string>>,
  download: "Download",
  none: "No line fits.",
} as const;
