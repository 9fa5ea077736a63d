// Builds the web interface into src/perdure/web/static: bundle, compressed copies, notices, and the hash of what it was built from.
// `node build.mjs [--out FOLDER] [--watch]`. The same sources give the same bytes, whoever builds them and wherever.
import { createHash } from "node:crypto";
import { mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { brotliCompressSync, constants, gzipSync } from "node:zlib";
import { build, context } from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const given = process.argv.indexOf("--out");
const out = given < 0 ? resolve(here, "../src/perdure/web/static") : resolve(process.argv[given + 1]);

/** The packages that browsers get: those that are named, and those that these need. */
function runtime() {
  const read = (name) => JSON.parse(readFileSync(join(here, name, "package.json"), "utf8"));
  const found = new Set();
  const queue = Object.keys(read(".").dependencies);
  for (const name of queue) {
    if (found.has(name)) continue;
    found.add(name);
    queue.push(...Object.keys(read(join("node_modules", name)).dependencies ?? {}));
  }
  return [...found].sort();
}

/** The files that the result depends on. `schema.ts` holds types alone, and is made anew from the server's document each time. */
function sources() {
  const found = ["package.json", "package-lock.json", "tsconfig.json", "build.mjs"];
  for (const entry of readdirSync(join(here, "src"), { recursive: true, withFileTypes: true })) {
    if (entry.isFile()) found.push(relative(here, join(entry.parentPath, entry.name)));
  }
  return found.filter((name) => name !== "src/api/schema.ts").sort();
}

const sha = (bytes) => createHash("sha256").update(bytes).digest("hex");

function hashSources() {
  const digest = createHash("sha256");
  for (const name of sources()) digest.update(`${name}\n${sha(readFileSync(join(here, name)))}\n`);
  return digest.digest("hex");
}

function notices() {
  const texts = runtime().map((name) => {
    const folder = join(here, "node_modules", name);
    const { version, license } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
    return `${name} ${version} (${license})\n\n${readFileSync(join(folder, "LICENSE"), "utf8").trim()}\n`;
  });
  return `The web interface holds these packages.\n\n${texts.join("\n---\n\n")}`;
}

/** Every screen leads to all that the frame holds. Without this, esbuild makes a file for each set of screens that share something, and
 * the first visit would ask for all of them; with it, what the frame and the screens share is one file. */
const frame = {
  name: "frame",
  setup({ onLoad }) {
    onLoad({ filter: /\/src\/screens\/.*\.tsx$/ }, ({ path }) => ({
      contents: `import "${relative(dirname(path), join(here, "src/frame.ts"))}";\n${readFileSync(path, "utf8")}`,
      loader: "tsx",
    }));
  },
};

const options = {
  absWorkingDir: here,
  entryPoints: { app: "src/main.tsx", style: "src/style/all.css" },
  outdir: out,
  entryNames: "[name]",
  chunkNames: "chunks/[name]-[hash]",
  bundle: true,
  minify: true,
  splitting: true,
  inject: [join(here, "src/shared.ts")],
  format: "esm",
  target: "es2022",
  charset: "utf8",
  legalComments: "none",
  jsx: "automatic",
  jsxImportSource: "preact",
  logLevel: "warning",
  plugins: [frame],
};

function finish() {
  const index = readFileSync(join(here, "src/index.html"));
  writeFileSync(join(out, "index.html"), index);
  writeFileSync(join(out, "icon.svg"), readFileSync(join(here, "src/style/icon.svg")));
  writeFileSync(join(out, "NOTICE.txt"), notices());
  const files = readdirSync(out, { recursive: true }).filter((name) => statSync(join(out, name)).isFile());
  for (const name of files) {
    if (!/\.(js|css|svg)$/.test(name)) continue;
    const bytes = readFileSync(join(out, name));
    writeFileSync(
      join(out, `${name}.br`),
      brotliCompressSync(bytes, {
        params: { [constants.BROTLI_PARAM_QUALITY]: 11, [constants.BROTLI_PARAM_SIZE_HINT]: bytes.length },
      }),
    );
    writeFileSync(join(out, `${name}.gz`), gzipSync(bytes, { level: 9 }));
  }
  const source = hashSources();
  const every = readdirSync(out, { recursive: true }).filter((name) => statSync(join(out, name)).isFile());
  const listed = Object.fromEntries(every.sort().map((name) => [name, sha(readFileSync(join(out, name)))]));
  const record = { build: source.slice(0, 16), sources: source, files: listed };
  writeFileSync(join(out, "build.json"), `${JSON.stringify(record, null, 1)}\n`);
}

const clean = () => {
  rmSync(out, { recursive: true, force: true });
  mkdirSync(out, { recursive: true });
};

if (process.argv.includes("--watch")) {
  const plugin = {
    name: "finish",
    setup(builder) {
      builder.onStart(clean);
      builder.onEnd((result) => {
        if (result.errors.length === 0) finish();
      });
    },
  };
  const watching = await context({ ...options, plugins: [plugin] });
  await watching.watch();
} else {
  clean();
  await build(options);
  finish();
}
