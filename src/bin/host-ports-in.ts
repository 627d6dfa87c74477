import type { NetworkPorts } from '../apps/agent/network/node-network.ts';
import { readVariable } from '../config/environment.ts';
import type { Kernel } from '../dataplane/kernel.ts';
import { loadAddon } from '../dataplane/linux/addon.ts';
import { findNetnsPath } from '../dataplane/linux/find-netns.ts';
import { linuxChainedState } from '../dataplane/linux/linux-chained-state.ts';
import { callPlugin } from '../install/host/chained-plugins.ts';
import { findRuntimeRecord, RESULTS_DIR } from '../install/host/runtime-records.ts';
import { handleOf } from '../model/names.ts';

/** Returns what the agent maps host ports of pods again with. */
export function hostPortsIn(env: NodeJS.ProcessEnv, kernel: Pick<Kernel, 'listHostLinks'>): NetworkPorts['hostPorts'] {
  const binDir = readVariable(env, 'NETPLUG_CNI_BIN_DIR');
  return {
    listLinks: () => kernel.listHostLinks(),
    chained: linuxChainedState(),
    findRecord: async (attachment) => findRuntimeRecord(RESULTS_DIR, attachment),
    findNetns: (attachment) => {
      const handle = handleOf(attachment);
      const link = kernel.listHostLinks().find(({ owner }) => owner !== undefined && handleOf(owner) === handle);
      return link && findNetnsPath(loadAddon(), link.name);
    },
    callPlugin: async (call, signal) => callPlugin({ ...call, binDir }, signal),
  };
}
