// Servers of netplug-typha and agents of this release and of an older commit beside each other, on a real API server.
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startAgent } from '../support/agent.ts';
import { addedWatches, watchesOf } from '../support/api-traffic.ts';
import { BUILT } from '../support/built.ts';
import { startFannedOutNode } from '../support/fanned-out-node.ts';
import { becomesReachable } from '../support/policed-node.ts';
import { buildRelease, type Release } from '../support/release.ts';
import { until } from '../support/until.ts';

/** Of 2026-11-29, before servers sent what calls need. */
const OLDER = { commit: 'a7017da9', version: 'v3.26.4', parts: 'executables' } as const;
const FOR_CALLS = ['clusterinformations', 'ipamconfigurations', 'ipblocks', 'ippools', 'ipreservations', 'namespaces'];

let older: Release;
beforeAll(async () => {
  older = await buildRelease(OLDER);
}, 300_000);
afterAll(async () => older?.[Symbol.asyncDispose]());

describe.each([
  ['an older server', 'an agent of this release', true],
  ['a server of this release', 'an older agent', false],
] as const)('%s, with %s', (_server, _agent, isServerOlder) => {
  it('enforces policies and serves calls; what the one does not know, the agent follows by itself', async () => {
    await using parts = await startFannedOutNode();
    const [serverBin, agentBin] = isServerOlder ? [older.bin, BUILT] : [BUILT, older.bin];
    await using typha = await parts.startServer('typha-1-a', 5473, { command: [join(serverBin, 'netplug-typha')] });
    await until(async () => (await watchesOf(parts.server)).has('networksets'), 'the server watches');
    const ofServer = await watchesOf(parts.server);
    await using agent = await startAgent(parts.node, {
      command: [join(agentBin, 'netplug-agent')],
      env: parts.agentEnv('on'),
    });
    const [web, db] = [await parts.add(agent, 'web'), await parts.add(agent, 'db')];
    await becomesReachable(web, db, true);
    await parts.close(true);
    await becomesReachable(web, db, false);
    expect(await typha.ask('/metrics')).toContain('netplug_typha_clients{release="');
    await expect
      .poll(async () => Object.keys(addedWatches(ofServer, await watchesOf(parts.server))))
      .toEqual(expect.arrayContaining(FOR_CALLS));
    await typha.stop('KILL');
    expect((await parts.add(agent, 'late')).address).toMatch(/^10\.65\./);
  }, 180_000);
});
