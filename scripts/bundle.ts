// How the programs become one file.
import { build, type BuildOptions } from 'esbuild';

const OPTIONS = {
  entryPoints: ['src/bin/main.ts'],
  outfile: 'build/netplug.cjs',
  bundle: true,
  platform: 'node',
  target: 'node24',
  format: 'cjs',
  minifySyntax: true,
  minifyWhitespace: true,
  metafile: true,
  logLevel: 'warning',
  logOverride: { 'empty-import-meta': 'silent' },
} satisfies BuildOptions;

/** Bundles to `build/netplug.cjs`, or only finds out what would be in it. Returns the files of which code is in it. */
export async function bundle({ write }: { readonly write: boolean }): Promise<readonly string[]> {
  const { metafile } = await build({ ...OPTIONS, write });
  return Object.values(metafile.outputs).flatMap(({ inputs }) =>
    Object.entries(inputs).flatMap(([path, { bytesInOutput }]) => (bytesInOutput === 0 ? [] : path)),
  );
}
