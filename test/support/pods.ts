// Pods made by hand on a test node.
import type { TestNetns } from './netns.ts';
import type { CniAnswer, TestNode } from './node.ts';

export interface Pod {
  readonly netns: TestNetns;
  readonly address: string;
}

/** Adds so many pods, twenty at a time; their container ids are the prefix and a number from 0. */
export async function addPods(node: TestNode, prefix: string, count: number): Promise<Pod[]> {
  const pods: Pod[] = [];
  for (let from = 0; from < count; from += 20) {
    const names = Array.from({ length: Math.min(20, count - from) }, (_, index) => `${prefix}${String(from + index)}`);
    pods.push(...(await Promise.all(names.map(async (name) => addPod(node, name)))));
  }
  return pods;
}

export async function addPod(node: TestNode, containerId: string): Promise<Pod> {
  const netns = await node.pod();
  return { netns, address: addressOf(await node.cni('ADD', { containerId, netns: netns.path, conf: node.netconf() })) };
}

/** Their addresses, in order. */
export function addressesOf(pods: readonly Pod[]): string[] {
  return pods.map(({ address }) => address).sort();
}

function addressOf({ json, stderr, status }: CniAnswer): string {
  if (status !== 0) throw new Error(`ADD failed: ${JSON.stringify(json)} ${stderr}`);
  return json.ips[0].address.split('/')[0];
}
