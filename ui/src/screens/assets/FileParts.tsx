// What is done with a file among values: looked into, and kept. It comes when the first one is.
export { KeepSheet } from "./KeepSheet.tsx";
export { Peek } from "./Peek.tsx";
