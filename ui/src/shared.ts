// What the first page has anyway. The build lets every screen have all of it, so that it stays one file: else each part that
// only some of the screens use would become a file of its own, and the first page would ask for all of them.
import "./api/call.ts";
import "./api/exact.ts";
import "./api/load.ts";
import "./kit/basics.tsx";
import "./kit/mailbox.ts";
import "./kit/problem.tsx";
import "./kit/text.ts";
import "./kit/window.ts";
import "./router.ts";
import "./shell/boot.ts";
import "./shell/keys.ts";
import "./shell/me.ts";
import "./words/en.ts";
