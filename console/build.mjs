// Bundles src/ into the folder that gantry-rapi serves below /console/: index.html, and assets with a hash in their names.
import { glob, readFile, rm, writeFile } from "node:fs/promises";
import path from "node:path";
import { gzipSync } from "node:zlib";
import { build } from "esbuild";

const OUT = path.join(import.meta.dirname, "../src/gantry/doors/console/static");
const MOST_BYTES = 120_000; // of the whole application, compressed: what a first visit transfers

await rm(OUT, { recursive: true, force: true });
const result = await build({
  absWorkingDir: import.meta.dirname,
  entryPoints: { console: "src/main.tsx", style: "src/style.css" },
  outdir: OUT,
  entryNames: "assets/[name]-[hash]",
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
let total = 0;
for (const file of Object.keys(result.metafile.outputs)) {
  const name = path.basename(file);
  page = page.replace(name.replace(/-[^-.]+\./, "."), name);
  total += gzipSync(await readFile(path.join(import.meta.dirname, file))).length;
}
await writeFile(path.join(OUT, "index.html"), page);
await writeFile(path.join(OUT, "licenses.txt"), await licenses());
if (total > MOST_BYTES) throw new Error(`the console has ${total} bytes compressed, more than ${MOST_BYTES}`);
console.log(`console: ${(total / 1000).toFixed(1)} kB compressed`);

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
