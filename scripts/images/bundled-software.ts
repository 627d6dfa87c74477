// Software inside netplug's executables, as CycloneDX: scanners find neither npm packages in a bundle nor runtimes in an
// executable.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { VERSION } from '../../src/base/version.ts';
import { bundledPackages } from '../bundle.ts';
import { BUN, platformOf } from '../platform.ts';
import type { Entry } from './entry.ts';

interface Component {
  readonly type: 'library' | 'framework';
  readonly name: string;
  readonly version: string;
  readonly purl: string;
  readonly licenses: readonly object[];
}

/** The folder of every image; the name ends as scanners look for. */
const PATH = 'usr/share/doc/netplug/bundled.cdx.json';

/** Returns the file that names the software. */
export async function bundledSoftware(): Promise<Entry> {
  const packages = (await bundledPackages()).map((folder): Component => {
    const { name, version, license } = readJson(join(folder, 'package.json'));
    return {
      type: 'library',
      name,
      version,
      purl: `pkg:npm/${name.replace('@', '%40')}@${version}`,
      licenses: [{ expression: license }],
    };
  });
  const runtimes = [
    runtime('node', `node-linux-${process.arch}`, { name: 'Node.js' }),
    runtime('bun', BUN[platformOf().architecture], { name: 'Bun' }),
  ];
  const document = {
    bomFormat: 'CycloneDX',
    specVersion: '1.6',
    version: 1,
    metadata: { component: { type: 'application', name: 'netplug', version: VERSION } },
    components: [...runtimes, ...packages],
  };
  return { path: PATH, mode: 0o644, text: `${JSON.stringify(document, undefined, 2)}\n` };
}

function runtime(name: string, folder: string, license: object): Component {
  const { version } = readJson(join('node_modules', folder, 'package.json'));
  return { type: 'framework', name, version, purl: `pkg:generic/${name}@${version}`, licenses: [{ license }] };
}

function readJson(path: string): { readonly name: string; readonly version: string; readonly license: string } {
  return JSON.parse(readFileSync(path, 'utf8')) as { name: string; version: string; license: string };
}
