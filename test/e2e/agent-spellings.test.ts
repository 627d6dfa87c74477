// One datastore may be written in several ways: order of URLs, a name for an address, a corrected network configuration.
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type Agent, startAgent } from '../support/agent.ts';
import { takeAwayEtcd } from '../support/node-etcd.ts';
import { type CniAnswer, startNode, type TestNode } from '../support/node.ts';

const SPELLINGS = ['http://127.0.0.1:2379', 'http://localhost:2379,http://127.0.0.1:2379', 'http://127.0.0.1:2379/'];

let node: TestNode;
beforeEach(async () => {
  node = await startNode({ mode: 'standalone' });
  await node.seedPool('v4', '10.65.0.0/24');
});
afterEach(async () => node[Symbol.asyncDispose]());

const confOf = (spelling: number): object => node.netconf({ kv_endpoints: SPELLINGS[spelling % SPELLINGS.length] });
const serve = async (spelling: number): Promise<Agent> =>
  startAgent(node, { socket: node.socket, env: { KV_ENDPOINTS: SPELLINGS[spelling]! } });
const addressOf = ({ json, status, stderr }: CniAnswer): string => {
  if (status !== 0) throw new Error(`ADD failed: ${JSON.stringify(json)} ${stderr}`);
  return json.ips[0].address.split('/')[0];
};

describe('an agent whose configurations spell one datastore in several ways', () => {
  it('assigns an attachment one address, and releases it through another spelling', async () => {
    const agent = await serve(0);
    const netns = (await node.pod()).path;
    const first = addressOf(await node.cni('ADD', { containerId: 'c1', netns, conf: confOf(0) }));
    for (const spelling of [1, 2, 0]) {
      expect(addressOf(await node.cni('ADD', { containerId: 'c1', netns, conf: confOf(spelling) }))).toBe(first);
    }
    expect((await node.cni('DEL', { containerId: 'c1', netns, conf: confOf(1) })).status).toBe(0);
    await agent.settled();
    expect(await node.heldAddresses()).toEqual([]);
    const assignedAddresses: string[] = [];
    for (let index = 0; index < 30; index += 1) {
      const pod = await node.pod();
      const call = { containerId: `m${String(index)}`, netns: pod.path, conf: confOf(index) };
      assignedAddresses.push(addressOf(await node.cni('ADD', call)));
    }
    expect(new Set(assignedAddresses).size).toBe(30);
    await agent.settled();
    expect([...(await node.heldAddresses())].sort()).toEqual(assignedAddresses.sort());
    await agent.stop();
    expect((await node.run(['ls', '/var/lib/netplug/journal'])).stdout).toBe('');
  });

  it('replays the journal of a killed agent that used another spelling', async () => {
    const agent = await serve(0);
    const add = async (containerId: string, spelling: number): Promise<string> =>
      addressOf(await node.cni('ADD', { containerId, netns: (await node.pod()).path, conf: confOf(spelling) }));
    const assignedAddresses = [await add('c0', 0)];
    await agent.settled();
    await using absence = await takeAwayEtcd(node, 'hangs');
    for (let index = 1; index < 6; index += 1) assignedAddresses.push(await add(`c${String(index)}`, 0));
    await agent.stop('KILL');
    await absence.end();
    const next = await serve(1);
    for (let index = 6; index < 12; index += 1) assignedAddresses.push(await add(`c${String(index)}`, 2));
    await next.settled();
    expect(new Set(assignedAddresses).size).toBe(12);
    expect([...(await node.heldAddresses())].sort()).toEqual(assignedAddresses.sort());
    await next.stop();
    expect((await node.run(['ls', '/var/lib/netplug/journal'])).stdout).toBe('');
  });
});
