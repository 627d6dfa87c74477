import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { callCtl, machineIn, type Ran } from '../../../../test/support/ctl.ts';
import { MemoryHostNetwork } from '../../../../test/support/memory/memory-host-network.ts';
import { memoryPacketTables } from '../../../../test/support/memory/memory-packet-tables.ts';
import { virtualClock } from '../../../base/clock.ts';

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'netplug-extended-'));
  for (const name of ['netplug-standalone', 'netplug', 'netplug-ipam']) await put(`from/${name}`, name);
});
afterEach(async () => rm(folder, { recursive: true, force: true }));

const at = (path: string): string => join(folder, path);
const text = async (path: string): Promise<string> => readFile(at(path), 'utf8');
const json = async (path: string): Promise<unknown> => JSON.parse(await text(path));
const names = async (path: string): Promise<string[]> => readdir(at(path)).catch(() => []);

async function run(verb: string, flags: readonly string[] = []): Promise<Ran> {
  const argv = [...verb.split(' '), '--bin-dir', at('bin'), '--conf-dir', at('conf'), ...flags];
  const ran = await callCtl(argv, {
    clock: virtualClock(Date.now()),
    machine: machineIn(folder),
    openHostNetwork: () => new MemoryHostNetwork(),
    openPacketTables: () => memoryPacketTables(),
    env: { KV_ENDPOINTS: 'http://127.0.0.1:2379' },
  });
  return { ...ran, err: ran.err.replaceAll(folder, '') };
}

const install = async (flags: readonly string[] = []): Promise<Ran> =>
  run('node install', ['--from', at('from'), ...flags]);

async function put(path: string, content: string): Promise<void> {
  await mkdir(dirname(at(path)), { recursive: true });
  await writeFile(at(path), content);
}

const MESH = { type: 'mesh-cni', kubernetes: {} };
function extended(list: unknown, ...entries: readonly object[]): object {
  const { plugins, ...rest } = list as { readonly plugins: readonly object[] };
  return { ...rest, plugins: [...plugins, ...entries] };
}

describe('a conflist with further plugins', () => {
  it('keeps what other programs have added to the conflist, and names it', async () => {
    await install();
    const own = await json('conf/10-netplug.conflist');
    await put('conf/10-netplug.conflist', JSON.stringify(extended(own, MESH)));
    const { status, err } = await install(['--mtu', '1400', '--no-bandwidth']);
    expect({ status, err }).toEqual({
      status: 0,
      err: expect.stringContaining('other programs have added "mesh-cni" to "/conf/10-netplug.conflist"'),
    });
    expect(await json('conf/10-netplug.conflist')).toMatchObject({
      plugins: [{ type: 'netplug', mtu: 1400 }, { type: 'portmap' }, MESH],
    });
  });

  it('chains further plugins behind those of netplug, with a warning', async () => {
    await put('chain.json', JSON.stringify([{ type: 'tuning', sysctl: { 'net.core.somaxconn': '512' } }]));
    const { status, err } = await install(['--chained-plugins', at('chain.json')]);
    expect({ status, err }).toEqual({
      status: 0,
      err: expect.stringContaining('"tuning" is not supported in a chain'),
    });
    expect(await json('conf/10-netplug.conflist')).toMatchObject({
      plugins: [{ type: 'netplug' }, { type: 'portmap' }, { type: 'bandwidth' }, { type: 'tuning' }],
    });
    // It is netplug's, and goes with the option.
    await install();
    expect(await text('conf/10-netplug.conflist')).not.toContain('tuning');
    await put('chain.json', '[{ "type": "portmap" }]');
    expect(await install(['--chained-plugins', at('chain.json')])).toMatchObject({
      status: 64,
      err: expect.stringContaining('none of netplug, portmap, bandwidth'),
    });
  });

  it('removes a conflist to which other programs have added plugins, and names these', async () => {
    const lost = /conflist "\/conf\/10-netplug\.conflist" also had "mesh-cni" of other programs/;
    await install();
    const own = await json('conf/10-netplug.conflist');
    await put('conf/10-netplug.conflist', JSON.stringify(extended(own, MESH)));
    expect((await run('node uninstall', ['--dry-run'])).err).toMatch(lost);
    const { status, err } = await run('node uninstall');
    expect({ status, err }).toEqual({ status: 0, err: expect.stringMatching(lost) });
    expect(await names('conf')).toEqual([]);
    // What is changed of netplug itself stays.
    await install();
    await put('conf/10-netplug.conflist', JSON.stringify({ ...extended({ plugins: [] }, { type: 'netplug' }, MESH) }));
    expect((await run('node uninstall')).status).toBe(1);
    const forced = await run('node uninstall', ['--force']);
    expect(forced).toMatchObject({ status: 0, err: expect.stringMatching(lost) });
  });
});
