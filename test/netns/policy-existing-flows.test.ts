// Connections that the kernel began to track in the middle.
import { afterEach, beforeEach, expect, it } from 'vitest';
import type { TrackedFlow } from '../../src/dataplane/flow-table.ts';
import { LinuxFlowTable } from '../../src/dataplane/linux/linux-flow-table.ts';
import { EndedRecord } from '../../src/apps/agent/network/policy/ended-record.ts';
import { parseAddress } from '../../src/net/address.ts';
import { POLICY_TABLE } from '../../src/policy/ruleset/policy-ruleset.ts';
import { enterNetns } from '../support/netns.ts';
import { globalPolicy } from '../support/policy-arbitraries.ts';
import { PolicyCluster, type TestPod } from '../support/policy-cluster.ts';
import { PolicyHost } from '../support/policy-host.ts';
import { answerInside, converseFrom } from '../support/tcp-echo.ts';

const podOf = (name: string, ordinal: number): TestPod => ({
  namespace: 'x',
  name,
  addresses: [`10.65.0.${String(ordinal)}`, `fd00:65::${String(ordinal)}`],
  interfaceName: `npl${name}`,
  labels: { role: name },
});
const [WEB, CLIENT] = [podOf('web', 1), podOf('client', 2)];

let scope: AsyncDisposableStack;
let cluster: PolicyCluster;
let host: PolicyHost;

beforeEach(async () => {
  scope = new AsyncDisposableStack();
  cluster = new PolicyCluster();
  host = scope.use(await PolicyHost.start(cluster));
  cluster.putNamespace('x');
  for (const pod of [WEB, CLIENT]) await host.addPod(pod);
  scope.use(await answerInside(host.pod('x/web'), 'web'));
});
afterEach(async () => scope.disposeAsync());

it('go on when policies that allow them are enforced for the first time, and when the kernel forgets them', async () => {
  cluster.put(
    globalPolicy('p', { source: { selector: "role == 'client'" } }, { selector: "role == 'web'", types: ['Ingress'] }),
  );
  for (const address of WEB.addresses) {
    using talk = await converseFrom(host.pod('x/client'), address);
    expect(await talk.echo('before')).toBe('before');
    await host.enforce();
    expect(await talk.echo('after')).toBe('after');
    await forgetFlows();
    expect(await talk.echo('again')).toBe('again');
  }
});

it('end when policies deny them and the agent has ended them', async () => {
  await host.enforce();
  const address = WEB.addresses[0] ?? '';
  using talk = await converseFrom(host.pod('x/client'), address);
  expect(await talk.echo('before')).toBe('before');
  // The server may send to everyone; the client may not ask.
  await host.enforce(
    cluster.put(globalPolicy('p', {}, { selector: "role == 'web'", types: ['Ingress'], ingress: [] })),
  );
  await forgetFlows(new EndedRecord());
  await expect(talk.echo('gone')).rejects.toThrow('aborted');
});

it('stay ended while others end more connections than the kernel has room for', async () => {
  await host.enforce();
  using talk = await converseFrom(host.pod('x/client'), WEB.addresses[0] ?? '');
  expect(await talk.echo('before')).toBe('before');
  await host.enforce(
    cluster.put(globalPolicy('p', {}, { selector: "role == 'web'", types: ['Ingress'], ingress: [] })),
  );
  const record = new EndedRecord();
  await forgetFlows(record);
  for (let round = 0; round < 40; round += 1) await end(record, flood(2000, round), 'y');
  await expect(talk.echo('gone')).rejects.toThrow('aborted');
});

it('end with those of a pod that has more ended connections than the kernel has room for', async () => {
  await host.enforce();
  using talk = await converseFrom(host.pod('x/client'), WEB.addresses[0] ?? '');
  expect(await talk.echo('before')).toBe('before');
  await host.enforce(
    cluster.put(globalPolicy('p', {}, { selector: "role == 'web'", types: ['Ingress'], ingress: [] })),
  );
  const record = new EndedRecord({ ofNamespace: 2000, all: 60_000 });
  await forgetFlows(record);
  await end(record, flood(2000, 0), 'x');
  await expect(talk.echo('gone')).rejects.toThrow('aborted');
});

/** Returns connections that the kernel does not have. */
function flood(count: number, round: number): readonly TrackedFlow[] {
  const [source, destination] = [parseAddress('10.66.0.1'), parseAddress(`10.67.${String(round)}.1`)];
  return Array.from({ length: count }, (_, index) => {
    const port = 1024 + index;
    return {
      original: { source, destination, protocol: 6, sourcePort: port, destinationPort: 80 },
      reply: { source: destination, destination: source, protocol: 6, sourcePort: 80, destinationPort: port },
      isReplied: true,
      handle: Buffer.alloc(0),
    };
  });
}

/** Makes the kernel drop the packets of the connections, as the agent does. */
async function end(record: EndedRecord, flows: readonly TrackedFlow[], namespace: string): Promise<void> {
  const owned = flows.map((flow) => ({ flow, owner: { namespace, cut: flow.original.source } }));
  await host.filter.renew(POLICY_TABLE, record.add(owned, 0), new AbortController().signal);
}

/** Ends all flows; with a record, as the agent ends those that policies deny. */
async function forgetFlows(record?: EndedRecord): Promise<void> {
  const inside = enterNetns(host.netns);
  try {
    using table = LinuxFlowTable.open();
    const flows = await table.list('all');
    expect(flows.length).toBeGreaterThan(0);
    if (record !== undefined) await end(record, flows, 'x');
    await table.end(flows);
  } finally {
    inside.leave();
  }
}
