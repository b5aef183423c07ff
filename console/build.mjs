// Bundles src/ into the folder that gantry-rapi serves below /console/: index.html, and assets with a hash in their names.
import { glob, readFile, rm, writeFile } from "node:fs/promises";
import path from "node:path";
import { gzipSync } from "node:zlib";
import { build } from "esbuild";

const OUT = path.join(import.meta.dirname, "../src/gantry/doors/console/static");
const MOST_BYTES = 120_000; // of what a first visit transfers, compressed
const MOST_LATER_BYTES = 250_000; // of what single pages load on demand

await rm(OUT, { recursive: true, force: true });
const result = await build({
  absWorkingDir: import.meta.dirname,
  entryPoints: { console: "src/main.tsx", style: "src/style.css" },
  outdir: OUT,
  entryNames: "assets/[name]-[hash]",
  chunkNames: "assets/[name]-[hash]",
  splitting: true, // what import() loads is not a part of the first page
  bundle: true,
  minify: true,
  format: "esm",
  target: ["es2022", "chrome123", "firefox121", "safari17.5"],
  jsx: "automatic",
  jsxImportSource: "preact",
  charset: "utf8",
  legalComments: "none",
  metafile: true,
  logLevel: "warning",
});

let page = await readFile(path.join(import.meta.dirname, "src/index.html"), "utf8");
const first = firstFiles();
let total = 0;
let later = 0;
for (const file of Object.keys(result.metafile.outputs)) {
  const name = path.basename(file);
  page = page.replace(name.replace(/-[^-.]+\./, "."), name);
  const size = gzipSync(await readFile(path.join(import.meta.dirname, file))).length;
  if (first.has(file) || file.endsWith(".css")) total += size;
  else later += size;
}
// The browser gets these beside the first script, not after it.
const preloads = [...first].slice(1).map((file) => `<link rel="modulepreload" href="assets/${path.basename(file)}" />`);
page = page.replace("</head>", `  ${preloads.join("\n    ")}\n  </head>`);
await writeFile(path.join(OUT, "index.html"), page);
await writeFile(path.join(OUT, "licenses.txt"), await licenses());
if (total > MOST_BYTES) throw new Error(`the console has ${total} bytes compressed, more than ${MOST_BYTES}`);
if (later > MOST_LATER_BYTES) throw new Error(`the console loads ${later} bytes later, more than ${MOST_LATER_BYTES}`);
console.log(`console: ${(total / 1000).toFixed(1)} kB compressed, and ${(later / 1000).toFixed(1)} kB on demand`);

/** Return the script of the page and those that it imports, which are loaded with it; others when a page needs them. */
function firstFiles() {
  const { outputs } = result.metafile;
  const files = new Set(Object.keys(outputs).filter((file) => outputs[file].entryPoint === "src/main.tsx"));
  for (const file of files) {
    for (const each of outputs[file].imports) if (each.kind === "import-statement") files.add(each.path);
  }
  return files;
}

/** Return the licenses of the libraries that are in the bundle, which want to be passed on with it. */
async function licenses() {
  const folders = new Set(
    Object.keys(result.metafile.inputs).map((file) => /^node_modules\/(?:@[^/]+\/)?[^/]+/.exec(file)?.[0]),
  );
  let text = "";
  for (const folder of [...folders].filter(Boolean).sort()) {
    const { name, version, license } = JSON.parse(
      await readFile(path.join(import.meta.dirname, folder, "package.json"), "utf8"),
    );
    text += `${name} ${version}: ${license}\n\n`;
    for await (const file of glob(`${folder}/LICENSE*`, { cwd: import.meta.dirname })) {
      text += `${await readFile(path.join(import.meta.dirname, file), "utf8")}\n`;
    }
  }
  return text;
}
