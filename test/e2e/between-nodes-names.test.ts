// Two machines with the name of one node.
import { afterAll, beforeAll, expect, it } from 'vitest';
import { NETPLUGCTL } from '../support/built.ts';
import { type Fabric, type FabricNode, startFabric } from '../support/fabric.ts';
import type { CniAnswer } from '../support/node.ts';
import { until } from '../support/until.ts';

const NAME = 'n1';
const REFUSED = 'another machine has this name (host name "';

let fabric: Fabric;
let [one, other]: FabricNode[] = [];
beforeAll(async () => {
  fabric = await startFabric({ nodes: { n1: 'a', n2: 'a' } });
  await fabric.setPools({ vxlanMode: 'Always' });
  [one, other] = [fabric.node('n1'), fabric.node('n2')];
});
afterAll(async () => fabric?.[Symbol.asyncDispose]());

const launch = async (node: FabricNode): Promise<unknown> => node.launchAgent({ NODENAME: NAME });
const add = async ({ machine, etcdUrl, places }: FabricNode, containerId: string): Promise<CniAnswer> => {
  const ipam = { type: 'netplug-ipam', assign_ipv4: 'true', assign_ipv6: 'true' };
  const conf = machine.netconf({ nodename: NAME, kv_endpoints: etcdUrl, ipam });
  return machine.cni('ADD', { containerId, netns: (await machine.pod()).path, conf, env: places });
};
const problemsOf = async ({ machine }: FabricNode): Promise<unknown> => {
  const { stdout } = await machine.run([NETPLUGCTL, 'node', 'status', '--socket', machine.socket, '-o', 'json']);
  return JSON.parse(stdout).problems;
};
/** All that the datastore has of the node but its report, which is renewed. */
const recordsOf = async (): Promise<unknown> => [
  await fabric.store.records(`resources/nodes/${NAME}`),
  await fabric.store.records(`endpoints/${NAME}/`),
  await fabric.store.records('ipam/'),
];
const untilReady = async (node: FabricNode): Promise<void> => node.agent().ready();
const untilRefused = async (node: FabricNode): Promise<void> =>
  until(
    async () => (await node.agent().ask('/readyz')).body.includes(REFUSED),
    () => `it is refused; the agent says:\n${node.agent().log()}`,
  );
async function expectClosed(node: FabricNode): Promise<void> {
  await untilRefused(node);
  const before = await recordsOf();
  const answer = await add(node, `refused-${String(performance.now())}`);
  expect(answer.json).toMatchObject({ code: 11, details: expect.stringContaining('agent/name-taken') as string });
  expect(await problemsOf(node)).toContainEqual(
    expect.objectContaining({ code: 'agent/name-taken', severity: 'error' }),
  );
  expect(await recordsOf()).toEqual(before);
  const tunnels = await node.netns.ip('link', 'show', 'type', 'vxlan');
  expect(tunnels).toEqual([]);
}

it('leaves the node to the machine that came first, names it on the other one, and lets that one have it once it is removed', async () => {
  await launch(one!);
  await untilReady(one!);
  expect((await add(one!, 'a')).status).toBe(0);
  await one!.agent().settled();

  await launch(other!);
  await expectClosed(other!);
  expect(other!.agent().log()).toContain('address 192.0.2.');
  expect((await one!.agent().ask('/readyz')).status).toBe(200);

  await Promise.all([one!.agent().stop(), other!.agent().stop()]);
  await launch(other!);
  await untilRefused(other!);
  await launch(one!);
  await untilReady(one!);
  await expectClosed(other!);
  expect((await add(one!, 'b')).status).toBe(0);

  await one!.agent().stop('KILL');
  expect(await fabric.netplugctl(['node', 'remove', NAME])).toMatchObject({ status: 0 });
  await untilReady(other!);
  expect((await add(other!, 'c')).status).toBe(0);
  await launch(one!);
  await untilRefused(one!);
});
