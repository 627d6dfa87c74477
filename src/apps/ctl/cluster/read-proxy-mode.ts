import { findObject } from '../../../kube/objects/apply.ts';
import { referenceTo } from '../../../kube/objects/reference.ts';
import type { OrchApi } from '../../../kube/orch-api.ts';
import { podSpecIn, listIn, recordIn } from '../../../upgrade/cluster/objects-in.ts';

const PROXY = { name: 'kube-proxy', namespace: 'kube-system' } as const;

/**
 * Returns the mode of kube-proxy, as its flag or else its configuration says it: `ipvs`, `iptables` or `nftables`. Undefined where kube-proxy
 * is not installed as kubeadm does, or has the default of its release. @throws store/*
 */
export async function readProxyMode(api: OrchApi, signal: AbortSignal): Promise<string | undefined> {
  const [set, config] = await Promise.all([
    findObject(api, referenceTo('DaemonSet', PROXY), signal),
    findObject(api, referenceTo('ConfigMap', PROXY), signal),
  ]);
  const words = listIn(podSpecIn(set ?? {}), 'containers').flatMap(({ command, args }) => [command, args].flat());
  const flags = words.map((word) => /^--proxy-mode=(\w+)$/.exec(String(word))?.[1]);
  const texts = Object.values(recordIn(config ?? {}, 'data')).filter((text) => typeof text === 'string');
  const configured = texts.map((text) => /^mode:\s*["']?(\w+)["']?\s*$/m.exec(text)?.[1]);
  return [...flags, ...configured].find((mode) => mode !== undefined);
}
