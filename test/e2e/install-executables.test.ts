// The init container of a node: whether the host can run what is installed, seen from another mount namespace.
import { execFile, execFileSync } from 'node:child_process';
import { cp, mkdir, mkdtemp, open, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { BUILT, NETPLUGCTL } from '../support/built.ts';

const LIBRARIES = `/usr/lib/${process.arch === 'arm64' ? 'aarch64' : 'x86_64'}-linux-gnu`;
/** Of a program for the other architecture of the two, in the header of an ELF file. */
const OTHER_MACHINE = process.arch === 'arm64' ? 0x3e : 0xb7;
const MACHINE_OFFSET = 18;

let dir: string;
beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), 'netplug-executables-'));
  await mkdir(join(dir, 'bin'));
});
afterEach(async () => rm(dir, { recursive: true, force: true }));

interface Ended {
  readonly status: number;
  readonly stderr: string;
}

/**
 * Runs the command in a "container": a mount namespace of its own that shares processes with the host, whose process 1
 * has made `host` true before. The container undoes that with `container`.
 */
async function inContainer(
  flags: readonly string[],
  { host = 'true', container = 'true' }: { readonly host?: string; readonly container?: string } = {},
): Promise<Ended> {
  const command = [NETPLUGCTL, 'node', 'install', '--executables-only', '--bin-dir', join(dir, 'bin'), ...flags].join(
    ' ',
  );
  const inner = `${container} && NETPLUG_STATE_DIR=${dir}/state ${command}`;
  const outer = `${host} || exit 99; unshare --mount sh -c '${inner}'; exit $?`;
  const args = ['--mount', '--pid', '--fork', '--kill-child', '--mount-proc', 'sh', '-c', outer];
  return new Promise((done) => {
    execFile('unshare', args, (cause, _, stderr) => {
      done({ status: cause === null ? 0 : Number(cause.code), stderr: stderr.replace(/^warning: .*\n/, '') });
    });
  });
}

const bin = async (): Promise<string[]> => (await readdir(join(dir, 'bin'))).sort();

describe('netplugctl node install --executables-only', () => {
  it('installs what runs on the host', async () => {
    expect(await inContainer(['--prove-on-host'])).toEqual({ status: 0, stderr: '' });
    expect(await bin()).toEqual(['netplug', 'netplug-ipam', 'netplug-standalone']);
    expect(await inContainer([])).toEqual({ status: 0, stderr: '' });
  });

  it('refuses a host without a library that it needs, whether the container has it or not', async () => {
    const upper = join(dir, 'upper');
    for (const name of ['data', 'work']) await mkdir(join(upper, name), { recursive: true });
    const layers = `lowerdir=${LIBRARIES},upperdir=${upper}/data,workdir=${upper}/work`;
    // An upper layer must not be on an overlay itself.
    const host = `mount -t tmpfs none ${upper} && mkdir ${upper}/data ${upper}/work && mount -t overlay -o ${layers} none ${LIBRARIES} && rm ${LIBRARIES}/libm.so.6`;
    expect(await inContainer(['--prove-on-host'], { host, container: `umount --lazy ${LIBRARIES}` })).toEqual({
      status: 74,
      stderr: expect.stringMatching(
        /^Cannot run ".*\/bin\/netplug-standalone": the host lacks the library libm\.so\.6\n {2}hint: Install it on the host, .*libc6/,
      ),
    });
    expect(await bin()).toEqual([]);
  });

  it.each(['dist/bin/netplug-standalone', 'dist/bin/netplug-agent', 'build/netns.node'])(
    '%s runs with glibc 2.28',
    (path) => {
      const symbols = execFileSync('objdump', ['--dynamic-syms', resolve(import.meta.dirname, '../..', path)], {
        maxBuffer: 2 ** 24,
        encoding: 'utf8',
      });
      const minors = [...symbols.matchAll(/GLIBC_2\.(\d+)/g)].map(([, minor]) => Number(minor));
      expect(minors.length).toBeGreaterThan(0);
      expect(Math.max(...minors)).toBeLessThanOrEqual(28);
    },
  );

  it('refuses a program for another architecture, and keeps the installed one', async () => {
    expect(await inContainer([])).toMatchObject({ status: 0 });
    const before = await readFile(join(dir, 'bin/netplug-standalone'));
    const from = join(dir, 'from');
    await mkdir(from);
    for (const name of await bin()) await cp(join(BUILT, name), join(from, name));
    await using file = await open(join(from, 'netplug-standalone'), 'r+');
    await file.write(Buffer.from([OTHER_MACHINE]), 0, 1, MACHINE_OFFSET);
    for (const flags of [['--prove-on-host'], []]) {
      expect(await inContainer(['--from', from, ...flags])).toEqual({
        status: 74,
        stderr: expect.stringMatching(/: it is built for another architecture\n {2}hint: Use .* for (x64|arm64) /),
      });
    }
    expect(before.equals(await readFile(join(dir, 'bin/netplug-standalone')))).toBe(true);
    expect(await bin()).toEqual(['netplug', 'netplug-ipam', 'netplug-standalone']);
  });

  it.each([
    ['noexec', '--bin-dir without noexec', /: its file system is mounted with noexec\n/],
    ['ro', '--bin-dir', /: the file system is read-only\n/],
    ['size=20m', '--bin-dir', /: no space left on device\n/],
  ])('refuses a folder mounted with %s, and names the flag', async (options, remedy, why) => {
    const host = `mount -t tmpfs -o ${options} none ${dir}/bin`;
    for (const flags of [['--prove-on-host'], []]) {
      const { status, stderr } = await inContainer(flags, { host });
      expect([status, stderr]).toEqual([74, expect.stringMatching(why)]);
      expect(stderr).toMatch(/^Cannot (run|write) ".*\/bin\/netplug-standalone": /);
      expect(stderr.split('\n')[1]).toContain(remedy);
    }
  });

  it('refuses to prove anything on a host whose processes the container does not see', async () => {
    const args = ['--mount', '--pid', '--fork', '--mount-proc', NETPLUGCTL, 'node', 'install', '--executables-only'];
    const flags = ['--prove-on-host', '--bin-dir', join(dir, 'bin')];
    const stderr = await new Promise<string>((done) => {
      const env = { ...process.env, NETPLUG_STATE_DIR: join(dir, 'state') };
      execFile('unshare', [...args, ...flags], { env }, (_, __, text) => done(text));
    });
    expect(stderr).toMatch(
      /Cannot use --prove-on-host: process 1 has the mount namespace of this process\n.*hostPID: true/,
    );
    expect(await bin()).toEqual([]);
  });
});
