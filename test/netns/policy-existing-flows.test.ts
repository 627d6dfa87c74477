// Connections that the kernel began to track in the middle.
import { afterEach, beforeEach, expect, it } from 'vitest';
import { LinuxFlowTable } from '../../src/dataplane/linux/linux-flow-table.ts';
import { endedElements } from '../../src/policy/ruleset/ended-flows.ts';
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
  await forgetFlows(true);
  await expect(talk.echo('gone')).rejects.toThrow('aborted');
});

/** Ends all flows; with `dropped`, as the agent ends those that policies deny. */
async function forgetFlows(dropped = false): Promise<void> {
  const inside = enterNetns(host.netns);
  try {
    using table = LinuxFlowTable.open();
    const flows = await table.list('all');
    expect(flows.length).toBeGreaterThan(0);
    if (dropped) await host.filter.extend(POLICY_TABLE, endedElements(flows), new AbortController().signal);
    await table.end(flows);
  } finally {
    inside.leave();
  }
}
