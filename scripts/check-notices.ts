// What the built programs contain of others, with its licenses, must be what THIRD_PARTY_NOTICES says; `--write` brings it
// up to date. The bundler says which packages are in it, so a new dependency shows here.
import { existsSync, globSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { bundledPackages } from './bundle.ts';

interface Notice {
  readonly title: string;
  readonly texts: readonly string[];
}

const FILE = 'THIRD_PARTY_NOTICES';
const LICENSE_FILES = '{LICENSE,LICENCE,NOTICE,COPYING}{,.md,.txt,-*}';
const APACHE = 'Licensed under the Apache License, Version 2.0: see LICENSE.';
/** For packages that name their license, and have its text and their owners in their sources only. */
const NO_FILE: Readonly<Record<string, readonly string[]>> = {
  '@bufbuild/protobuf': [
    `Copyright 2021-2026 Buf Technologies, Inc. ${APACHE}\n`,
    readText('native/licenses/protobuf.txt'),
  ],
};
const HEAD = `Third-party software in the executables of netplug

netplug itself is licensed under the Apache License, Version 2.0: see LICENSE. Its executables contain the software below.
Made from what the build bundles; "npm run docs:write" makes it anew.
`;
const RULE = '='.repeat(80);

const text = await render();
if (process.argv.includes('--write')) {
  writeFileSync(FILE, text);
} else if (!existsSync(FILE) || readFileSync(FILE, 'utf8') !== text) {
  console.error(`${FILE} is not what the programs are built from: run "npm run docs:write"`);
  process.exitCode = 1;
}

async function render(): Promise<string> {
  const packages = await bundledPackages();
  if (packages.length === 0) throw new Error('the bundler names no packages');
  const notices = [nodeNotice(), ...bunNotices(), ...packages.map(packageNotice), muslNotice()];
  // Many packages have the very same text.
  const groups = Map.groupBy(notices, ({ texts }) => texts.join('\n\n'));
  const all = [...groups].map(([texts, group]) =>
    [RULE, ...group.map(({ title }) => title), RULE, '', texts].join('\n'),
  );
  return `${HEAD}\n${all.join('\n\n')}\n`;
}

function packageNotice(folder: string): Notice {
  const { name, version, license } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')) as {
    readonly name: string;
    readonly version: string;
    readonly license?: string;
  };
  const files = globSync(join(folder, LICENSE_FILES)).sort();
  const texts = files.length === 0 ? NO_FILE[name] : files.map(readText);
  if (license === undefined || texts === undefined) throw new Error(`${folder} brings no license`);
  return { title: `${name} ${version} (${license})`, texts };
}

/** Node is the executable into which the bundle is put. */
function nodeNotice(): Notice {
  const [file] = globSync('node_modules/{,node/node_modules/}node-linux-*/LICENSE');
  if (file === undefined) throw new Error('Node brings no license');
  const { version } = JSON.parse(readText(join(dirname(file), 'package.json'))) as { readonly version: string };
  return { title: `Node.js ${version}`, texts: [readText(file)] };
}

/** Bun is the executable of the program for calls without an agent. Its npm package brings no license. */
function bunNotices(): readonly Notice[] {
  const [file] = globSync('node_modules/@oven/bun-linux-*/package.json');
  if (file === undefined) throw new Error('Bun is not installed');
  const { version } = JSON.parse(readText(file)) as { readonly version: string };
  if (!readText('native/licenses/bun.txt').includes(`Bun ${version} is commit`))
    throw new Error(`native/licenses/bun.txt names the sources of another release than Bun ${version}`);
  const notice = (title: string, name: string): Notice => ({ title, texts: [readText(`native/licenses/${name}.txt`)] });
  return [
    notice(`Bun ${version} (MIT), in "netplug-standalone", with what it contains`, 'bun'),
    notice('Libraries in Bun', 'bun-libraries'),
    notice('JavaScriptCore (LGPL-2), in Bun', 'lgpl-2'),
    notice('tinycc (LGPL-2.1), in Bun', 'lgpl-2.1'),
  ];
}

/** The programs in C are linked statically. */
function muslNotice(): Notice {
  return {
    title: 'musl (MIT), in "netplug", "netplug-ipam", "netplug-probe" and "netplug-bird"',
    texts: [readText('native/licenses/musl.txt')],
  };
}

function readText(file: string): string {
  return readFileSync(file, 'utf8').trim();
}
