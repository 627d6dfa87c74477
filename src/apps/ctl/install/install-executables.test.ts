import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { callCtl, type Ran } from '../../../../test/support/ctl.ts';
import { virtualClock } from '../../../base/clock.ts';

let folder: string;
beforeEach(async () => void (folder = await mkdtemp(join(tmpdir(), 'netplug-install-'))));
afterEach(async () => rm(folder, { recursive: true, force: true }));

const at = (path: string): string => join(folder, path);
const text = async (path: string): Promise<string> => readFile(at(path), 'utf8');
const names = async (path: string): Promise<string[]> => readdir(at(path)).catch(() => []);

async function put(path: string, content: string): Promise<void> {
  await mkdir(dirname(at(path)), { recursive: true });
  await writeFile(at(path), content);
}

/** Runs `node VERB` with folders of its own, and without a connection. */
async function run(verb: 'install' | 'uninstall', ...flags: string[]): Promise<Ran> {
  const { status, out, err } = await callCtl(
    ['node', verb, '--bin-dir', at('bin'), '--conf-dir', at('conf'), ...flags],
    {
      clock: virtualClock(Date.now()),
      machine: {
        executable: undefined,
        stateDir: at('state/netplug'),
        runDir: at('run/netplug'),
        agentLock: at('state/netplug/agent.lock'),
        socketPath: at('run/netplug/cni.sock'),
        logDir: at('log/netplug'),
        resultsDir: at('results'),
        serviceAccountDir: at('serviceaccount'),
      },
    },
  );
  return { status, out: out.replaceAll(folder, ''), err: err.replaceAll(folder, '') };
}

describe('node install --executables-only', () => {
  const VERSION = '#!/bin/sh\ncat > /dev/null\necho \'{"supportedVersions":["1.0.0"]}\'\n';
  const only = async (): Promise<Ran> => run('install', '--from', at('from'), '--executables-only');
  beforeEach(async () => {
    await put('from/netplug-standalone', VERSION);
    for (const name of ['netplug', 'netplug-ipam']) await put(`from/${name}`, 'program');
    for (const name of ['portmap', 'bandwidth', 'host-local', 'loopback'])
      await put(`from/${name}`, `standard ${name}`);
  });

  it('writes neither kubeconfig nor conflist, and needs no connection', async () => {
    expect(await only()).toMatchObject({ status: 0, err: '' });
    expect(await names('conf')).toEqual([]);
    expect(await names('bin')).toHaveLength(7);
    expect(await only()).toMatchObject({ status: 0, out: expect.not.stringContaining(' installed') });
    expect(await run('uninstall')).toMatchObject({ status: 0, err: '' });
    expect(await names('bin')).toEqual([]);
  });

  it('keeps the standard plugins that the host has, and removes only its own', async () => {
    await put('bin/portmap', 'of the host');
    expect(await only()).toMatchObject({ status: 0, err: '' });
    await put('from/bandwidth', 'of the next release');
    expect(await only()).toMatchObject({ status: 0, err: '' });
    expect([await text('bin/portmap'), await text('bin/bandwidth')]).toEqual(['of the host', 'standard bandwidth']);
    expect(await run('uninstall')).toMatchObject({ status: 0, err: '' });
    expect(await names('bin')).toEqual(['portmap']);
  });

  it('warns of standard plugins that neither the host nor the release has', async () => {
    await rm(at('from/loopback'));
    await put('bin/host-local', 'of the host');
    const { status, err } = await only();
    expect([status, err]).toEqual([0, 'warning: "/bin" lacks the standard plugins loopback\n']);
  });

  it.each([
    [
      'ends with a status',
      '#!/bin/sh\necho "no such luck" >&2\nexit 3\n',
      /^Cannot run ".*standalone": no such luck\n/,
    ],
    ['answers something else', '#!/bin/sh\necho hello\n', /^Cannot run ".*standalone": hello\n/],
    ['has no loader on the host', '#!/lib/no-such-loader\n', /: the host lacks its program loader/],
  ])('keeps the installed program when the next one %s', async (_, program, why) => {
    expect(await only()).toMatchObject({ status: 0 });
    await put('from/netplug-standalone', program);
    expect(await only()).toMatchObject({ status: 74, err: expect.stringMatching(why) });
    expect(await text('bin/netplug-standalone')).toBe(VERSION);
    expect((await names('bin')).filter((name) => name.startsWith('.'))).toEqual([]);
  });
});
