// How to send something to a webhook from a terminal: the proof that its scheme asks for, made with openssl and sent with curl.
import { quote } from "../../kit/commands.ts";

export interface Verify {
  readonly scheme: string;
  readonly secret: string;
  readonly header: string;
  readonly prefix: string;
  readonly encoding: string;
  readonly timestamp_header: string;
  readonly signed: string;
  readonly id_header: string;
}

/** Schemes whose deliveries have an id of their own. */
export const WITH_IDS: readonly string[] = ["standard", "github", "stripe", "slack"];

const BODY = '{"id": "m1", "event_id": "m1", "order": 17}';
const HEX = "| openssl dgst -sha256 -hmac \"$SECRET\" -r | cut -d' ' -f1";
const BASE64 = '| openssl dgst -sha256 -hmac "$SECRET" -binary | openssl base64 -A';

/** The secret is read from the environment: nothing secret stands on the page. */
export function asShell(address: string, verify: Verify): string {
  const lines = [`BODY=${quote(BODY)}`];
  if (verify.scheme !== "none") lines.push(`SECRET="$PERDURE_SECRET_${verify.secret}"`);
  const { before, headers } = proofOf(verify);
  lines.push(...before, `curl -sS -X POST ${quote(address)} -H 'Content-Type: application/json' \\`);
  for (const one of headers) lines.push(`  -H ${one} \\`);
  lines.push('  -d "$BODY"');
  return lines.join("\n");
}

/** Between double quotes a shell reads these four. */
const inside = (text: string): string => text.replace(/[\\"$`]/g, "\\$&");

function proofOf(verify: Verify): { before: readonly string[]; headers: readonly string[] } {
  const now = "NOW=$(date +%s)";
  switch (verify.scheme) {
    case "standard":
      return {
        before: [
          now,
          "case $SECRET in whsec_*) RAW='openssl base64 -d -A';; *) RAW=cat;; esac",
          "KEY=$(printf %s \"$SECRET\" | sed 's/^whsec_//' | $RAW | od -An -v -tx1 | tr -d ' \\n')",
          'SIGNED=$(printf %s "m1.$NOW.$BODY" | openssl dgst -sha256 -mac HMAC -macopt "hexkey:$KEY" -binary | openssl base64 -A)',
        ],
        headers: ["'webhook-id: m1'", '"webhook-timestamp: $NOW"', '"webhook-signature: v1,$SIGNED"'],
      };
    case "github":
      return {
        before: [`SIGNED=$(printf %s "$BODY" ${HEX})`],
        headers: ["'X-GitHub-Delivery: m1'", '"X-Hub-Signature-256: sha256=$SIGNED"'],
      };
    case "stripe":
      return {
        before: [now, `SIGNED=$(printf %s "$NOW.$BODY" ${HEX})`],
        headers: ['"Stripe-Signature: t=$NOW,v1=$SIGNED"'],
      };
    case "slack":
      return {
        before: [now, `SIGNED=$(printf %s "v0:$NOW:$BODY" ${HEX})`],
        headers: ['"X-Slack-Request-Timestamp: $NOW"', '"X-Slack-Signature: v0=$SIGNED"'],
      };
    case "hmac": {
      const places: Readonly<Record<string, string>> = { "{body}": "$BODY", "{timestamp}": "$NOW", "{id}": "m1" };
      const signed = verify.signed
        .split(/(\{(?:body|timestamp|id)\})/)
        .map((part) => places[part] ?? inside(part))
        .join("");
      const headers = [`"${inside(verify.header)}: ${inside(verify.prefix)}$SIGNED"`];
      if (verify.timestamp_header) headers.push(`"${inside(verify.timestamp_header)}: $NOW"`);
      if (verify.id_header) headers.push(`"${inside(verify.id_header)}: m1"`);
      const end = verify.encoding === "hex" ? HEX : BASE64;
      return { before: [now, `SIGNED=$(printf %s "${signed}" ${end})`], headers };
    }
    case "bearer":
      return { before: [], headers: ['"Authorization: Bearer $SECRET"'] };
    default:
      return { before: [], headers: [] };
  }
}
