// The texts of sending an event.
import { many, number } from "./en.ts";

export const events = {
  way: "Send an event",
  title: "Send an event",
  does: "It is durable as soon as the server answers. It starts one run for each trigger that listens to its name, and ends the waits for it.",
  name: "Name",
  nameHint: "What has happened, such as order.paid.",
  key: "Key",
  keyHint: "Optional. What triggers see as item.key; a wait may ask for one.",
  payload: "Payload, JSON",
  id: "Id of the event",
  idHint: "Optional. Sent again with it, it is the same event.",
  needs: "An event needs a name.",
  verb: "Send",
  sent: (listeners: number) =>
    listeners >= 1000
      ? "Sent. At least 1,000 triggers and runs listen."
      : `Sent. ${many(listeners, "trigger or run listens", "triggers and runs listen")}.`,
  duplicate: "An event of this name had this id before: nothing has happened.",
  otherKeys: (count: number) => `${number(count)} wait for it under another key.`,
} as const;
