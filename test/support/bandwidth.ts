// The standard bandwidth plugin, as a runtime calls it after netplug.
import type { PodNetwork } from '../../src/dataplane/kernel.ts';
import { program } from './components.ts';
import { here } from './here.ts';
import type { TestNetns } from './netns.ts';

/** Bits per second, and bits; no limit in a direction without a rate. */
export interface RuntimeBandwidth {
  readonly ingressRate?: number;
  readonly ingressBurst?: number;
  readonly egressRate?: number;
  readonly egressBurst?: number;
}

/** Calls the plugin in the namespace of a host. Throws what it says when it refuses. */
export async function callBandwidth(
  host: Pick<TestNetns, 'path'>,
  command: 'ADD' | 'CHECK' | 'DEL',
  { network, bandwidth }: { readonly network: PodNetwork; readonly bandwidth: RuntimeBandwidth },
): Promise<void> {
  const { containerId, ifName, network: name } = network.owner;
  const interfaces = [{ name: network.hostLinkName }, { name: network.podLinkName, sandbox: network.netns }];
  const prevResult = { cniVersion: '1.0.0', interfaces, ips: [] };
  const conf = { cniVersion: '1.0.0', name, type: 'bandwidth', runtimeConfig: { bandwidth }, prevResult };
  const { status, stdout, stderr } = await here.run(['nsenter', `--net=${host.path}`, program('bandwidth')], {
    stdin: JSON.stringify(conf),
    env: {
      CNI_COMMAND: command,
      CNI_CONTAINERID: containerId,
      CNI_NETNS: network.netns,
      CNI_IFNAME: ifName,
      CNI_PATH: '/nowhere',
    },
  });
  if (status !== 0) throw new Error(`bandwidth ${command}: ${stdout}${stderr}`);
}
