// A firewall that forwards nothing, as Docker and ufw set it up: the doctor names it, and its remedy helps.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { findDroppers, type ForwardDropper } from '../../src/apps/ctl/doctor/forward-filter.ts';
import { KERNEL_CHECKS } from '../../src/apps/ctl/doctor/kernel-checks.ts';
import type { KernelFacts } from '../../src/apps/ctl/doctor/kernel-facts.ts';
import { readForwardFilters } from '../../src/apps/ctl/doctor/read-forward-filters.ts';
import { type Finding, judgeAll } from '../../src/checks/check.ts';
import { networkOf } from '../contract/suites/dataplane/kernel.ts';
import { linuxKernel } from '../../src/dataplane/linux/linux-kernel.ts';
import { type TestNetns, newNetns } from '../support/netns.ts';
import { within } from '../support/tcp-echo.ts';

const signal = new AbortController().signal;
const scope = new AsyncDisposableStack();
const TO = { IPv4: '10.65.0.2', IPv6: 'fd00:65::2' };

let host: TestNetns;
let pod: TestNetns;

beforeAll(async () => {
  host = scope.use(await newNetns());
  pod = scope.use(await newNetns());
  const other = scope.use(await newNetns());
  await host.exec('sysctl', '-qw', 'net.ipv4.ip_forward=1', 'net.ipv6.conf.all.forwarding=1');
  await within(host, async () => {
    const [from, to] = [['10.65.0.1', 'fd00:65::1'], Object.values(TO)];
    await linuxKernel().apply(networkOf(pod.path, { hostLinkName: 'nplone', addresses: from }), signal);
    await linuxKernel().apply(networkOf(other.path, { hostLinkName: 'npltwo', addresses: to }), signal);
  });
});

afterAll(async () => scope.disposeAsync());

interface Firewall {
  readonly what: string;
  readonly setUp: string;
  readonly takeDown: string;
  readonly found: string;
  readonly reached: string;
}

const FLUSH = 'iptables-nft -P FORWARD ACCEPT; ip6tables-nft -P FORWARD ACCEPT; nft flush ruleset';

const FIREWALLS: readonly Firewall[] = [
  {
    what: 'iptables in nftables with policy DROP',
    setUp: 'iptables-nft -P FORWARD DROP',
    takeDown: FLUSH,
    found: 'chain FORWARD of table "ip filter" drops packets of pods',
    reached: TO.IPv4,
  },
  {
    what: 'ip6tables in nftables with policy DROP',
    setUp: 'ip6tables-nft -P FORWARD DROP',
    takeDown: FLUSH,
    found: 'chain FORWARD of table "ip6 filter" drops packets of pods',
    reached: TO.IPv6,
  },
  {
    what: 'the chains of Docker',
    setUp: `iptables-nft -N DOCKER-USER; iptables-nft -A DOCKER-USER -j RETURN; iptables-nft -A FORWARD -j DOCKER-USER;
      iptables-nft -A FORWARD -o docker0 -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT;
      iptables-nft -A FORWARD -i docker0 ! -o docker0 -j ACCEPT; iptables-nft -P FORWARD DROP`,
    takeDown: FLUSH,
    found: 'chain FORWARD of table "ip filter" drops packets of pods',
    reached: TO.IPv4,
  },
  {
    what: 'the old iptables with policy DROP',
    setUp: 'iptables-legacy -P FORWARD DROP',
    takeDown: 'iptables-legacy -P FORWARD ACCEPT; iptables-legacy -F FORWARD',
    found: 'chain FORWARD of table "ip filter" drops packets of pods',
    reached: TO.IPv4,
  },
  {
    what: 'a table of nftables that ends with a rejection',
    setUp: `nft 'table inet wall {
      chain forward { type filter hook forward priority 10; ct state established accept; iifname "lo" accept; reject; }
    }'`,
    takeDown: FLUSH,
    found: 'chain forward of table "inet wall" drops packets of pods',
    reached: TO.IPv6,
  },
];

describe.each(FIREWALLS)('$what', ({ setUp, takeDown, found, reached }) => {
  it('is reported by the doctor until its remedy is applied; then pods reach each other', async () => {
    expect([await faults(), await pod.ping(reached)]).toEqual([[], true]);
    await host.exec('sh', '-ec', setUp);
    const [fault, ...more] = await faults();
    expect([fault?.found, more, await pod.pingOnce(reached)]).toEqual([found, [], false]);
    await host.exec('sh', '-ec', fault?.command ?? 'false');
    expect([await faults(), await pod.ping(reached)]).toEqual([[], true]);
    await host.exec('sh', '-ec', takeDown);
  });
});

async function faults(): Promise<readonly Finding[]> {
  const forwardDroppers: readonly ForwardDropper[] = await within(host, async () =>
    findDroppers(await readForwardFilters('/proc/thread-self', signal), []),
  );
  const checks = KERNEL_CHECKS.filter(({ id }) => id === 'kernel/forward-dropped');
  // The check looks at nothing else.
  return judgeAll(checks, { forwardDroppers } as unknown as KernelFacts);
}
