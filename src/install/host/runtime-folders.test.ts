import { chmod, mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { findOtherFolders, findRuntimes, findStaleFolders, isProgramMissing } from './runtime-folders.ts';

const OWN = { confDir: '/etc/cni/net.d', binDir: '/opt/cni/bin' };
const K3S = {
  confDir: '/var/lib/rancher/k3s/agent/etc/cni/net.d',
  binDir: '/var/lib/rancher/k3s/data/cni',
  config: '/var/lib/rancher/k3s/agent/etc/containerd/config.toml',
};
const NETNS = 'net:[4026531840]';

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'netplug-runtime-'));
  await mkdir(join(folder, 'host'));
  await processOf('1', 'init', ['init']);
  await symlink('1', join(folder, 'proc/self'));
});
afterEach(async () => rm(folder, { recursive: true, force: true }));

/** Puts a file on the host. */
async function put(path: string, content: string): Promise<void> {
  const file = join(folder, 'host', path);
  await mkdir(dirname(file), { recursive: true });
  await writeFile(file, content);
}

async function processOf(pid: string, comm: string, args: readonly string[], { root = 'host', netns = NETNS } = {}) {
  const dir = join(folder, 'proc', pid);
  await mkdir(join(dir, 'ns'), { recursive: true });
  await writeFile(join(dir, 'comm'), `${comm}\n`);
  await writeFile(join(dir, 'cmdline'), args.map((arg) => `${arg}\0`).join(''));
  await symlink(netns, join(dir, 'ns/net'));
  await symlink(join(folder, root), join(dir, 'root'));
}

const cni = (plugin: string, confDir: string, binDirs: string): string =>
  `[plugins."${plugin}".cni]\n  conf_dir = "${confDir}"\n  ${binDirs}\n`;
const codes = async (own = OWN): Promise<string[]> =>
  (await findOtherFolders(join(folder, 'proc'), own)).map(({ code }) => code);
const BOTH = ['plugin/other-folder', 'plugin/other-folder'];

describe('a program', () => {
  it('is missing where no folder of a runtime has it, and not known to be where no runtime is read', async () => {
    const binDir = join(folder, 'host/opt/cni/bin');
    const isMissing = async (): Promise<boolean> => isProgramMissing(join(folder, 'proc'), binDir, 'mesh-cni');
    await mkdir(join(folder, 'proc'), { recursive: true });
    expect(await isMissing()).toBe(false);
    await put(K3S.config, cni('io.containerd.cri.v1.runtime', K3S.confDir, `bin_dirs = ["/opt/cni/bin", "/mesh"]`));
    await processOf('40', 'containerd', ['containerd', '-c', K3S.config]);
    expect(await isMissing()).toBe(true);
    for (const path of ['/mesh/mesh-cni', '/opt/cni/bin/mesh-cni']) {
      await put(path, '');
      expect(await isMissing()).toBe(true);
      await chmod(join(folder, 'host', path), 0o755);
      expect(await isMissing()).toBe(false);
      await rm(join(folder, 'host', path));
    }
    await symlink('/elsewhere/mesh-cni', join(binDir, 'mesh-cni'));
    expect(await isMissing()).toBe(false);
  });
});

describe('the folders of the runtime', () => {
  it.each([
    ['version 2', cni('io.containerd.grpc.v1.cri', K3S.confDir, `bin_dir = "${K3S.binDir}"`)],
    [
      'version 3',
      `version = 3\n${cni('io.containerd.cri.v1.runtime', `${K3S.confDir}/`, `bin_dirs = ["${K3S.binDir}"]`)}`,
    ],
  ])('are those of a configuration of %s that is no default', async (_, config) => {
    await put(K3S.config, config);
    await processOf('40', 'containerd', ['containerd', '-c', K3S.config, '-a', '/run/k3s/containerd/containerd.sock']);
    const faults = await findOtherFolders(join(folder, 'proc'), OWN);
    expect(faults.map(({ code }) => code)).toEqual(BOTH);
    expect(faults[0]?.text).toContain(`"${K3S.config}"`);
    expect(faults[0]?.remedy).toMatch(`spec.cni.confDir of the Installation to "${K3S.confDir}`);
    expect(faults[1]?.remedy).toContain(`spec.cni.binDir of the Installation to "${K3S.binDir}"`);
    expect(await codes(K3S)).toEqual([]);
  });

  it('are the usual ones without a file or without these keys', async () => {
    await processOf('40', 'containerd', ['/usr/bin/containerd']);
    expect(await codes()).toEqual([]);
    expect(await codes(K3S)).toEqual(BOTH);
    await put(
      '/etc/containerd/config.toml',
      'version = 2\n[plugins."io.containerd.grpc.v1.cri"]\nsandbox_image = "x"\n',
    );
    expect(await codes(K3S)).toEqual(BOTH);
  });

  it('are those of imported files, in the order of their names', async () => {
    await put('/etc/k0s/containerd.toml', 'imports = ["/run/k0s/cri.toml", "containerd.d/*.toml"]');
    await put('/run/k0s/cri.toml', cni('io.containerd.grpc.v1.cri', '/a', 'bin_dir = "/opt/cni/bin"'));
    await put('/etc/k0s/containerd.d/10.toml', cni('io.containerd.grpc.v1.cri', '/b', ''));
    await put('/etc/k0s/containerd.d/20.toml', cni('io.containerd.grpc.v1.cri', K3S.confDir, ''));
    await processOf('40', 'containerd', ['containerd', '--config=/etc/k0s/containerd.toml']);
    expect(await findRuntimes(join(folder, 'proc'))).toMatchObject([
      { confDir: K3S.confDir, binDirs: ['/opt/cni/bin'], config: '/etc/k0s/containerd.toml' },
    ]);
    // Releases of containerd differ in what this leaves of the others.
    await put('/etc/k0s/containerd.d/30.toml', '[plugins."io.containerd.grpc.v1.cri"]\nsandbox_image = "x"\n');
    expect(await findRuntimes(join(folder, 'proc'))).toEqual([]);
  });

  it('are the same behind a link', async () => {
    await put(join(K3S.confDir, 'x'), '');
    await mkdir(join(folder, 'host/etc/cni'), { recursive: true });
    // Its target is a path of the host.
    await symlink(K3S.confDir, join(folder, 'host/etc/cni/net.d'));
    await put(K3S.config, cni('io.containerd.grpc.v1.cri', K3S.confDir, ''));
    await processOf('40', 'containerd', ['containerd', '--config', K3S.config]);
    expect(await codes()).toEqual([]);
  });

  it.each<[string, () => Promise<void>]>([
    ['a configuration that is no TOML', async () => put(K3S.config, '[plugins')],
    ['a missing configuration', async () => Promise.resolve()],
    ['a containerd that starts no pods', async () => put(K3S.config, 'disabled_plugins = ["cri"]')],
    ['a folder in its place', async () => put(join(K3S.config, 'x'), '')],
  ])('are not known with %s', async (_, make) => {
    await make();
    await processOf('40', 'containerd', ['containerd', '--config', K3S.config]);
    expect(await codes(K3S)).toEqual([]);
    expect(await codes()).toEqual([]);
  });

  it('are not those of a program in a container, of another node, or of a second runtime beside one that fits', async () => {
    const other = cni('io.containerd.grpc.v1.cri', '/other', 'bin_dir = "/other"');
    await mkdir(join(folder, 'container/etc/containerd'), { recursive: true });
    await writeFile(join(folder, 'container/etc/containerd/config.toml'), other);
    await put('/etc/containerd/config.toml', other);
    await processOf('40', 'containerd', ['containerd'], { root: 'container' });
    await processOf('41', 'containerd', ['containerd'], { netns: 'net:[1]' });
    await processOf('42', 'containerd-shim', ['containerd-shim']);
    expect(await codes()).toEqual([]);
    await processOf('43', 'containerd', ['containerd']);
    expect(await codes()).toEqual(BOTH);
    await put(K3S.config, cni('io.containerd.grpc.v1.cri', OWN.confDir, ''));
    await processOf('44', 'containerd', ['containerd', '-c', K3S.config]);
    expect(await codes()).toEqual([]);
  });
});

describe('folders that are mounted in a container', () => {
  const SNAP = 'var/snap/microk8s';
  const NAMES = ['net', 'bin'];
  /** The same path leads below `host` for the runtime, and to a mount for the container. */
  const onHost = (...path: readonly string[]): string => join(folder, 'host', folder, SNAP, ...path);
  const inContainer = (...path: readonly string[]): string => join(folder, SNAP, ...path);
  const stale = async (): Promise<readonly string[] | undefined> => {
    const own = { confDir: inContainer('current/net'), binDir: inContainer('current/bin') };
    return (await findStaleFolders(join(folder, 'proc'), own))?.map(({ code }) => code);
  };
  const mount = async (revision: string): Promise<void> => {
    await rm(inContainer(), { recursive: true, force: true });
    await mkdir(inContainer('current'), { recursive: true });
    for (const name of NAMES) await symlink(onHost(revision, name), inContainer('current', name));
  };

  it.each([
    ['relative', (revision: string) => revision],
    ['absolute', (revision: string) => inContainer(revision)],
  ])('are stale once the link to their revision leads to the next: %s', async (_, targetOf) => {
    const leadTo = async (revision: string): Promise<void> => {
      await rm(onHost('current'), { force: true });
      await symlink(targetOf(revision), onHost('current'));
    };
    for (const revision of ['7', '8'])
      for (const name of NAMES) await mkdir(onHost(revision, name), { recursive: true });
    await leadTo('7');
    await mount('7');
    expect(await stale()).toBeUndefined();
    await processOf('40', 'containerd', ['containerd']);
    expect(await stale()).toEqual([]);
    await leadTo('8');
    expect(await stale()).toEqual(['plugin/stale-folder', 'plugin/stale-folder']);
    await mount('8');
    expect(await stale()).toEqual([]);
    await rm(onHost('current'));
    expect(await stale()).toBeUndefined();
  });
});
