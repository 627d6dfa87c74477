// Licenses of what an image contains beside packages of Debian, which bring theirs, and where the sources of packages are.
import { execFileSync } from 'node:child_process';
import { globSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { moduleFolder, program } from '../../test/support/components.ts';
import { findGo } from '../components/find-go.ts';
import type { LockedPackage } from './debian-packages.ts';
import { CNI_PLUGINS, DEBIAN_RELEASE } from './declared.ts';
import type { Entry } from './entry.ts';

const LICENSE_FILES = '{LICENSE,LICENCE,NOTICE,COPYING}{,.md,.txt}';
const RULE = '='.repeat(80);

/** Returns the license of netplug and those of what is bundled with it. */
export function netplugLicenses(): readonly Entry[] {
  return ['LICENSE', 'THIRD_PARTY_NOTICES'].map((name) => ({
    path: `usr/share/doc/netplug/${name}`,
    mode: 0o644,
    source: resolve(name),
  }));
}

/** Returns a file that names the source package of each package, and how to get it. */
export function sourceOffer(layer: string, packages: readonly LockedPackage[]): Entry {
  const lines = packages.map(
    ({ name, version, source }) => `${name} ${version} of ${DEBIAN_RELEASE}: source package ${source}`,
  );
  const text = `Files of the packages below come from Debian without changes. Debian distributes the source code of each one as the source
package of the version that is named: "apt-get source NAME=VERSION" with a deb-src line for the release that
is named, or Debian's snapshot archive, which keeps all versions. "make images-sources" in the repository of
netplug fetches all of them. If you pass the image on, pass their source code on with it, or offer it.

${lines.join('\n')}
`;
  return { path: `usr/share/doc/netplug/SOURCES.${layer}`, mode: 0o644, text };
}

/** Returns the licenses of the modules that the standard CNI plugins are compiled from, and of Go's own library. */
export function cniPluginLicenses(): Entry {
  const go = findGo((text) => void process.stderr.write(`images: ${text}\n`));
  const run = (...args: string[]): string =>
    execFileSync(go, args, { cwd: moduleFolder('cni-plugins'), encoding: 'utf8', maxBuffer: 2 ** 26 });
  const modules = new Set<string>();
  for (const name of CNI_PLUGINS) {
    for (const [, path = '', version = ''] of run('version', '-m', program(name)).matchAll(
      /^\t(?:dep|mod)\t(\S+)\t(v\S+)/gm,
    ))
      modules.add(`${path}@${version}`);
  }
  const folders = goModuleFolders(run('mod', 'download', '-json'));
  const sections = [...modules].sort().map((module) => {
    const folder = folders.get(module);
    const files = folder === undefined ? [] : globSync(join(folder, LICENSE_FILES)).sort();
    if (files.length === 0) throw new Error(`The Go module ${module} brings no license`);
    return section(module, files);
  });
  // Go keeps it beside its sources; Debian's package has it among its documents.
  const [goLicense] = globSync([join(run('env', 'GOROOT').trim(), 'LICENSE'), '/usr/share/doc/golang*/copyright']);
  if (goLicense === undefined) throw new Error('Go brings no license');
  const all = [section('The Go standard library', [goLicense]), ...sections];
  return { path: 'usr/share/doc/cni-plugins/copyright', mode: 0o644, text: all.join('\n') };
}

function section(title: string, files: readonly string[]): string {
  const texts = files.map((file) => readFileSync(file, 'utf8').trim());
  return [RULE, title, RULE, '', texts.join('\n\n'), ''].join('\n');
}

/** Folders by `module@version`, from what `go mod download -json` prints: one object after the other. */
function goModuleFolders(text: string): ReadonlyMap<string, string> {
  const objects = JSON.parse(`[${text.trim().replaceAll(/^\}\n\{/gm, '},{')}]`) as readonly {
    readonly Path: string;
    readonly Version: string;
    readonly Dir: string;
  }[];
  return new Map(objects.map(({ Path, Version, Dir }) => [`${Path}@${Version}`, Dir]));
}
