// Fails when two files of src/ export types, classes, functions or constants of one name: one name, one meaning.
import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

const EXPORT = /^export (?:async )?(?:abstract )?(?:interface|type|class|function\*?|const) (\w+)/gm;
/** Adapters of one port export the same names with the same meaning. */
const ADAPTERS = /^(datastore|dataplane)\/(memory|kv|orch|linux)$/;

const filesOf = new Map<string, string[]>();
const files = readdirSync('src', { recursive: true, encoding: 'utf8' });
for (const file of files.filter((path) => path.endsWith('.ts') && !path.endsWith('.test.ts'))) {
  for (const [, name = ''] of readFileSync(join('src', file), 'utf8').matchAll(EXPORT)) {
    filesOf.set(name, [...(filesOf.get(name) ?? []), file]);
  }
}
const shared = [...filesOf].filter(([, all]) => {
  const folders = new Set(all.map((file) => dirname(file)));
  const ports = new Set([...folders].map((folder) => ADAPTERS.exec(folder)?.[1]));
  const isPort = folders.size === all.length && ports.size === 1 && !ports.has(undefined);
  return new Set(all).size > 1 && !isPort;
});
for (const [name, all] of shared) console.error(`${name} is exported by ${all.join(', ')}: rename one`);
if (filesOf.size === 0) console.error('saw no exports at all: the checker itself is broken');
process.exitCode = shared.length === 0 && filesOf.size > 0 ? 0 : 1;
