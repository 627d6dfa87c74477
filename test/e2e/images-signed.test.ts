// Images for arm64, bills of materials and signatures, from what `make images` has put into dist/images.
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, join, resolve } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { IMAGE_NAMES } from '../../scripts/images/declared.ts';
import { VERSION } from '../../src/base/version.ts';
import { program } from '../support/components.ts';
import { freePort } from '../support/free-port.ts';
import { here } from '../support/here.ts';
import { removeAtEnd } from '../support/janitor.ts';
import type { RunResult } from '../support/node.ts';
import { until } from '../support/until.ts';

const IMAGES = resolve(import.meta.dirname, '../../dist/images');

const PASSWORD = { COSIGN_PASSWORD: 'a password' };

let dir: string;
beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'netplug-signed-'));
  removeAtEnd('folder', dir);
});
afterAll(async () => rm(dir, { recursive: true, force: true }));

async function succeed(command: readonly string[], env: Record<string, string> = {}): Promise<string> {
  const { status, stdout, stderr } = await here.run(command, { env });
  if (status !== 0) throw new Error(`${command.join(' ')}: ${stdout}${stderr}`);
  return stdout;
}

describe('the image netplug-node for arm64 under emulation', () => {
  let root: string;
  beforeAll(async () => {
    root = join(dir, 'root');
    const archive = join(dir, 'archive');
    for (const folder of [root, archive]) await mkdir(folder);
    await succeed(['tar', '-xf', join(IMAGES, 'netplug-node-arm64.tar'), '-C', archive]);
    const [image] = JSON.parse(await readFile(join(archive, 'manifest.json'), 'utf8')) as { Layers: string[] }[];
    for (const layer of image!.Layers) await succeed(['tar', '-xzf', join(archive, layer), '-C', root]);
  });

  it.each([
    ['/usr/bin/netplug-agent --version', /^netplug-agent v3\.27\.0$/m],
    ['/usr/bin/netplug-orch-controllers --version', /^netplug-orch-controllers v3\.27\.0$/m],
    ['/usr/bin/netplugctl version --client', /v3\.27\.0/],
    ['/usr/bin/netplug-standalone', /netplug v3\.27\.0/],
    ['/usr/sbin/bird --version', /^BIRD version 2\.17/m],
    ['/usr/bin/ip -V', /^ip utility/m],
    ['/usr/bin/tar --version', /^tar \(GNU tar\)/m],
    ['/usr/lib/cni/host-local', /CNI host-local plugin v/],
    ['/usr/lib/cni/portmap', /CNI portmap plugin v/],
  ])('starts %s', async (command, expected) => {
    const [path = '', ...args] = command.split(' ');
    const emulator = ['qemu-aarch64-static', '-L', root, '-0', basename(path)];
    const { stdout, stderr } = await here.run([...emulator, join(root, path), ...args]);
    expect(`${stdout}${stderr}`).toMatch(expected);
  });
});

describe('bills of materials and signatures', () => {
  const script = (name: string, ...args: string[]): string[] => [process.execPath, `scripts/${name}.ts`, ...args];

  it('names packages of Debian, Node, bundled npm packages and Go modules, and is the same the second time', async () => {
    const read = async (): Promise<string> => readFile(join(IMAGES, 'netplug-node-amd64.spdx.json'), 'utf8');
    await succeed(script('images-sbom'));
    const text = await read();
    for (const name of IMAGE_NAMES)
      expect(JSON.parse(await readFile(join(IMAGES, `${name}-amd64.spdx.json`), 'utf8')).packages).not.toEqual([]);
    const { packages } = JSON.parse(text) as { packages: { name: string; versionInfo?: string }[] };
    const names = packages.map(({ name }) => name);
    for (const name of ['bird2', 'libc6', 'node', 'valibot', 'github.com/containernetworking/plugins'])
      expect(names).toContain(name);
    expect(names).not.toContain('nftables');
    await succeed(script('images-sbom'));
    expect(await read()).toBe(text);
  });

  it('verifies what was signed with the key, and refuses checksums that were changed', async () => {
    await succeed([program('cosign'), 'generate-key-pair', '--output-key-prefix', join(dir, 'key')], PASSWORD);
    await succeed(script('images-sign', '--key', join(dir, 'key.key')), PASSWORD);
    const bundle = join(IMAGES, 'SHA256SUMS.sigstore.json');
    const common = ['--key', join(dir, 'key.pub'), '--insecure-ignore-tlog', '--bundle', bundle];
    const verify = async (sums: string): Promise<RunResult> =>
      here.run([program('cosign'), 'verify-blob', ...common, sums]);
    expect((await verify(join(IMAGES, 'SHA256SUMS'))).status).toBe(0);
    await succeed(['sh', '-c', `cd '${IMAGES}' && sha256sum --check SHA256SUMS`]);
    const text = await readFile(join(IMAGES, 'SHA256SUMS'), 'utf8');
    await writeFile(
      join(dir, 'changed'),
      text.replace(/^[0-9a-f]/, (digit) => (digit === '0' ? '1' : '0')),
    );
    expect((await verify(join(dir, 'changed'))).status).not.toBe(0);
  });

  it('signs what was pushed to a registry, where only the key that signed verifies it', async () => {
    const address = `127.0.0.1:${String(await freePort())}`;
    const registry = await here.start([program('crane'), 'registry', 'serve', '--address', address]);
    try {
      const names = IMAGE_NAMES.map((name) => `${address}/net/${name}`);
      await until(
        async () =>
          fetch(`http://${address}/v2/`).then(
            ({ ok }) => ok,
            () => false,
          ),
        'the registry answers',
      );
      for (const [index, name] of names.entries())
        await succeed([program('crane'), 'push', join(IMAGES, IMAGE_NAMES[index]!), `${name}:${VERSION}`]);
      const keys = ['ours', 'theirs'].map((name) => join(dir, name));
      for (const key of keys)
        await succeed([program('cosign'), 'generate-key-pair', '--output-key-prefix', key], PASSWORD);
      const [ours, theirs] = keys;
      await succeed(script('images-sign', '--key', `${ours!}.key`, '--registry', `${address}/net`), PASSWORD);
      const verify = async (key: string, name: string): Promise<RunResult> =>
        here.run([program('cosign'), 'verify', '--key', `${key}.pub`, '--insecure-ignore-tlog', name]);
      for (const name of names) {
        const digest = (await succeed([program('crane'), 'digest', `${name}:${VERSION}`])).trim();
        const { status, stderr } = await verify(ours!, `${name}@${digest}`);
        expect({ status, stderr }).toMatchObject({ status: 0 });
        expect((await verify(theirs!, `${name}@${digest}`)).status).not.toBe(0);
      }
    } finally {
      await registry.stop('KILL');
    }
  });
});
