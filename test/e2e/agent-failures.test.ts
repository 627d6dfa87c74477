// The agent when things go wrong around it: killed, without its datastore, without a disk.
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type Agent, startAgent } from '../support/agent.ts';
import { NETPLUGCTL } from '../support/built.ts';
import { takeAwayEtcd } from '../support/node-etcd.ts';
import { type CniAnswer, type Json, startNode, type TestNode, until } from '../support/node.ts';

const STATE = '/var/lib/netplug';

let node: TestNode;
beforeEach(async () => {
  node = await startNode({ mode: 'standalone' });
  await node.seedPool('v4', '10.65.0.0/24');
});
afterEach(async () => node[Symbol.asyncDispose]());

const serve = async (env = {}): Promise<Agent> => startAgent(node, { socket: node.socket, env });
const callOf = async (containerId: string): Promise<{ containerId: string; netns: string; conf: object }> => ({
  containerId,
  netns: (await node.pod()).path,
  conf: node.netconf(),
});
const add = async (containerId: string, env = {}): Promise<CniAnswer> =>
  node.cni('ADD', { ...(await callOf(containerId)), env });
const del = async (containerId: string): Promise<CniAnswer> => node.cni('DEL', { containerId, conf: node.netconf() });
const addressOf = ({ json }: CniAnswer): string => json.ips[0].address.split('/')[0];
const gauge = async (agent: Agent, name: string): Promise<number> =>
  Number(new RegExp(`^${name} (.*)$`, 'm').exec((await agent.ask('/metrics')).body)?.[1]);

/** Expects the datastore to record exactly the addresses that pods received, and no agent to hold any more. */
async function expectRecords(assignedAddresses: readonly string[]): Promise<void> {
  expect(new Set(assignedAddresses).size).toBe(assignedAddresses.length);
  expect((await node.heldAddresses()).toSorted()).toEqual(assignedAddresses.toSorted());
  const recorded = (await node.endpoints()).flatMap(({ spec }): string[] => spec.ipNetworks);
  expect(recorded.map((cidr) => cidr.replace('/32', '')).toSorted()).toEqual(assignedAddresses.toSorted());
  const blocks = [...(await node.records('ipam/blocks/')).values()];
  expect(blocks.flatMap(({ preallocated = {} }) => Object.keys(preallocated))).toEqual([]);
  expect((await node.run(['ls', `${STATE}/journal`])).stdout).toBe('');
}

describe('an agent killed in the middle of twenty ADDs', () => {
  it.each(['the next agent', 'the standalone program alone'])(
    'leaves nothing that %s does not put right',
    async (who) => {
      const agent = await serve();
      expect((await add('c-first')).status).toBe(0);
      expect((await del('c-first')).status).toBe(0);
      const calls = await Promise.all(Array.from({ length: 20 }, async (_, index) => callOf(`c${String(index)}`)));
      const running = calls.map(async (call) => node.cni('ADD', call));
      await Promise.race(running);
      await agent.stop('KILL');
      const answers = await Promise.all(running);
      expect(answers.filter(({ status, json }) => status !== 0 && json.code !== 11)).toEqual([]);
      // A runtime takes down what failed, or tries again.
      const assignedAddresses: string[] = [];
      for (const [index, answer] of answers.entries()) {
        if (answer.status === 0) assignedAddresses.push(addressOf(answer));
        else if (index % 2 === 0) await del(calls[index]!.containerId);
        else assignedAddresses.push(addressOf(await node.cni('ADD', calls[index]!)));
      }
      if (who === 'the next agent') await (await serve()).stop();
      else await node.cni('STATUS', { conf: node.netconf() });
      await expectRecords(assignedAddresses);
      expect(await node.hostLinks()).toHaveLength(assignedAddresses.length);
    },
  );
});

describe('an agent whose etcd', () => {
  it.each(['hangs', 'is killed'] as const)(
    '%s assigns from the warm pool, reports when it is empty, and flushes later',
    async (how) => {
      const agent = await serve({ NETPLUG_WARM_POOL_SIZE: '4' });
      const assignedAddresses = new Map([['c0', addressOf(await add('c0'))]]);
      await agent.settled();
      await using absence = await takeAwayEtcd(node, how);
      const impatient = { NETPLUG_CALL_TIMEOUT: '3' };
      let refused: Json;
      for (let count = 1; refused === undefined && count < 30; count += 1) {
        const answer = await add(`c${String(count)}`, impatient);
        if (answer.status === 0) assignedAddresses.set(`c${String(count)}`, addressOf(answer));
        else refused = answer.json;
      }
      expect(assignedAddresses.size).toBeGreaterThanOrEqual(5);
      expect(refused).toMatchObject({ code: 11 });
      await until(async () => (await gauge(agent, 'netplug_datastore_up')) === 0, 'the agent knows');
      expect((await add('c-late', impatient)).json).toMatchObject({
        code: 11,
        msg: expect.stringContaining('127.0.0.1:2379'),
      });
      expect(await node.cni('STATUS', { conf: node.netconf(), env: impatient })).toMatchObject({
        status: 1,
        json: { code: 50, msg: expect.stringContaining('127.0.0.1:2379') },
      });
      expect((await del('c1')).status).toBe(0);
      assignedAddresses.delete('c1');
      expect(await agent.ask('/healthz')).toMatchObject({ status: 200 });
      expect(await gauge(agent, 'netplug_pending_writes')).toBeGreaterThanOrEqual(assignedAddresses.size - 1);

      await absence.end();
      await agent.settled();
      expect((await node.heldAddresses()).toSorted()).toEqual([...assignedAddresses.values()].toSorted());
      await until(async () => (await gauge(agent, 'netplug_datastore_up')) === 1, 'the agent knows');
      expect(await agent.ask('/readyz')).toMatchObject({ status: 200 });
      assignedAddresses.set('c-last', addressOf(await add('c-last')));
      await agent.stop();
      await expectRecords([...assignedAddresses.values()]);
    },
  );
});

describe('an agent whose disk is full', () => {
  it('waits for the datastore instead of the journal while its disk is full', async () => {
    await node.exec('sh', '-c', `mkdir -p ${STATE} && mount -t tmpfs -o size=64k tmpfs ${STATE}`);
    const agent = await serve();
    const assignedAddresses = [addressOf(await add('c0'))];
    await agent.settled();
    await node.run(['dd', 'if=/dev/zero', `of=${STATE}/fill`]);
    // The journal has a page already; together they need more.
    const answers = await Promise.all(Array.from({ length: 20 }, async (_, index) => add(`many-${String(index)}`)));
    assignedAddresses.push(...answers.map(addressOf));
    await until(() => agent.log().includes('journal failed'), 'the failure of the journal is logged');
    await agent.settled();
    expect((await node.heldAddresses()).toSorted()).toEqual(assignedAddresses.toSorted());
    await node.exec('rm', `${STATE}/fill`);
    assignedAddresses.push(addressOf(await add('c1')));
    await agent.stop();
    await expectRecords(assignedAddresses);
  });

  it('starts without a journal, serves calls through the datastore, and names the cause until there is room', async () => {
    await node.exec('sh', '-c', `mkdir -p ${STATE} && mount -t tmpfs -o size=64k tmpfs ${STATE}`);
    await (await serve()).stop();
    await node.run(['dd', 'if=/dev/zero', `of=${STATE}/fill`]);
    const agent = await serve();
    expect(agent.log()).toMatch(/journal failed .*ENOSPC/);
    const assignedAddresses = [addressOf(await add('c0'))];
    expect((await node.heldAddresses()).toSorted()).toEqual(assignedAddresses);
    const { stdout } = await node.run([NETPLUGCTL, 'node', 'status', '--socket', node.socket, '-o', 'json']);
    expect(JSON.parse(stdout).problems).toMatchObject([{ code: 'agent/journal-failed', severity: 'warning' }]);
    await node.exec('rm', `${STATE}/fill`);
    await until(() => agent.log().includes('journal opened'), 'the journal is opened');
    assignedAddresses.push(addressOf(await add('c1')));
    await agent.stop();
    await expectRecords(assignedAddresses);
  });
});
