import { execFileSync } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { VERSION } from '../src/base/version.ts';

const [node, tools] = ['a', 'b'].map((digit) => `sha256:${digit.repeat(64)}`);
let folder: string;
let digests: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'netplug-release-'));
  const file = join(folder, 'digests.json');
  const images = {
    [`mirror.example:5000/net/netplug-node:${VERSION}`]: node,
    [`mirror.example:5000/net/netplug:${VERSION}`]: tools,
  };
  writeFileSync(file, JSON.stringify(images));
  digests = run('image-digests', file).trim();
});
afterAll(() => rmSync(folder, { recursive: true }));

function run(script: string, argument: string, env: Readonly<Record<string, string>> = {}): string {
  const path = join(import.meta.dirname, `${script}.ts`);
  return execFileSync(process.execPath, [path, argument], { encoding: 'utf8', env: { ...process.env, ...env } });
}

it('name every image of a release by tag and digest, and tell the operator the digests', () => {
  expect(digests).toBe(`netplug-node=${String(node)},netplug=${String(tools)}`);
  const manifests = join(folder, 'manifests');
  run('write-manifests', manifests, { NETPLUG_IMAGE_DIGESTS: digests });
  const texts = readdirSync(manifests).map((name) => readFileSync(join(manifests, name), 'utf8'));
  const images = new Set(texts.flatMap((text) => [...text.matchAll(/image: (\S+)/g)].map(([, image]) => image)));
  expect([...images].sort()).toEqual([
    `netplug.io/netplug-node:${VERSION}@${String(node)}`,
    `netplug.io/netplug:${VERSION}@${String(tools)}`,
  ]);
  const operator = readFileSync(join(manifests, 'netplug-operator.yaml'), 'utf8');
  expect(operator).toContain(`- name: NETPLUG_IMAGE_DIGESTS\n              value: ${digests}\n`);
});

it('have a chart whose registry may be another one, and whose images keep the digests', () => {
  const charts = join(folder, 'charts');
  run('write-charts', charts, { NETPLUG_IMAGE_DIGESTS: digests });
  const read = (path: string): string =>
    execFileSync('tar', ['--extract', '--to-stdout', '--file', join(charts, `netplug-${VERSION}.tgz`), path], {
      encoding: 'utf8',
    });
  expect(read('netplug/templates/_helpers.tpl')).toContain(
    `{{ .Values.installation.registry | default "netplug.io" | trimSuffix "/" }}/netplug:{{ .Chart.AppVersion }}@${String(tools)}`,
  );
  expect(read('netplug/templates/operator.yaml')).toContain(`value: ${digests}`);
});
