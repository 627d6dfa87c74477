// How the programs become three files: the plugin for calls without an agent, what runs beside each pod, and everything else.
import { readFileSync } from 'node:fs';
import { build, type BuildOptions, type Plugin } from 'esbuild';

/** What most calls of the plugin do without: TLS, the API of the orchestrator, streams of etcd, traces. */
const SELDOM_IN_CALLS = /^(node:(http|https|http2|tls)|yaml|@opentelemetry\/.+)$/;
/** What the sidecar does without, though modules that it shares with other programs import it: a megabyte in each. */
const SELDOM_IN_SIDECARS = /^node:(crypto|fs\/promises)$/;

const LATER = 'load-later';

/** Has these modules loaded when one of their exports is first used. */
const loadLater = (seldomUsed: RegExp): Plugin => ({
  name: LATER,
  setup: (builder) => {
    builder.onResolve({ filter: seldomUsed }, ({ path, namespace, resolveDir }) =>
      namespace === LATER ? undefined : { path, namespace: LATER, pluginData: resolveDir },
    );
    builder.onLoad({ filter: seldomUsed, namespace: LATER }, async ({ path, pluginData: resolveDir }) => {
      const names = Object.keys((await import(path)) as object).filter(
        (name) => /^\w+$/.test(name) && name !== 'default',
      );
      const getters = names.map((name) => `get ${name}() { return load().${name}; }`);
      const contents = `let loaded; const load = () => (loaded ??= require('${path}')); module.exports = { ${getters.join(', ')} };`;
      return { contents, loader: 'js', resolveDir: String(resolveDir) };
    });
  },
});

/** Of the images of a release, which were built before: the programs inside them have none. */
const { BUILT_IN_DIGESTS } = process.env;

/** How all of them are compiled. */
export const OPTIONS = {
  define: BUILT_IN_DIGESTS === undefined ? {} : { BUILT_IN_DIGESTS: JSON.stringify(BUILT_IN_DIGESTS) },
  bundle: true,
  platform: 'node',
  target: 'node24',
  // Both runtimes have it. As esbuild writes it for others, a block in a loop that failed once fails with that error ever after.
  supported: { using: true },
  format: 'cjs',
  minifySyntax: true,
  minifyWhitespace: true,
  metafile: true,
  logLevel: 'warning',
  logOverride: { 'empty-import-meta': 'silent' },
} satisfies BuildOptions;

const BUNDLES = [
  { entryPoints: ['src/bin/main.ts'], outfile: 'build/netplug.cjs' },
  {
    entryPoints: ['src/bin/sidecar-main.ts'],
    outfile: 'build/sidecar.cjs',
    plugins: [loadLater(SELDOM_IN_SIDECARS)],
    minifyIdentifiers: true,
  },
  {
    entryPoints: ['src/bin/standalone.ts'],
    outfile: 'build/standalone.cjs',
    plugins: [loadLater(SELDOM_IN_CALLS)],
  },
] satisfies BuildOptions[];

/** Bundles to `build/*.cjs`, or only finds out what would be in them. Returns the files of which code is in them. */
export async function bundle({ write }: { readonly write: boolean }): Promise<readonly string[]> {
  const results = await Promise.all(BUNDLES.map(async (one) => build({ ...OPTIONS, ...one, write })));
  if (write) for (const { outfile } of BUNDLES) assertAscii(outfile);
  const inputs = results.flatMap(({ metafile }) =>
    Object.values(metafile.outputs).flatMap((output) => Object.entries(output.inputs)),
  );
  const paths = inputs.flatMap(([path, { bytesInOutput }]) => (bytesInOutput === 0 ? [] : path));
  return [...new Set(paths)].filter((path) => !path.startsWith(LATER));
}

/**
 * With one other character Node keeps a bundle in memory with two bytes for each of its characters, which is 3 MB more for each
 * process. esbuild escapes such characters, but not in regular expressions.
 */
function assertAscii(path: string): void {
  const text = readFileSync(path, 'utf8');
  const at = text.search(/\P{ASCII}/u);
  if (at === -1) return;
  throw new Error(
    `${path} has a character outside ASCII, write it as an escape: ${text.slice(Math.max(0, at - 40), at + 40)}`,
  );
}

/** Returns the folders of the npm packages of which code is in the bundles. */
export async function bundledPackages(): Promise<readonly string[]> {
  const inputs = await bundle({ write: false });
  const folders = inputs.flatMap((path) => /^.*node_modules\/(?:@[^/]+\/)?[^/]+/.exec(path)?.[0] ?? []);
  return [...new Set(folders)].sort();
}
