// Which end-to-end tests drive what a folder contains, for `npm run test:changed`. Tests of the other rings import what they
// test, and vitest finds them by that.

/** Patterns of files of test/e2e, by the folder of the repository; the longest folder that contains a file counts. */
export const TOUCHES: Readonly<Record<string, readonly string[]>> = {
  'src/apps/agent': ['agent*', 'takeover', 'network-process', 'hostile-clients'],
  'src/apps/agent/network': ['agent-policy-*', 'agent-settings', 'network-process', 'between-nodes-changes'],
  'src/apps/controllers': ['controllers*'],
  'src/apps/ctl': ['ctl-*', 'netplugctl', 'tasks', 'plans-killed'],
  'src/apps/ctl/doctor': ['ctl-doctor', 'ctl-diags', 'tasks'],
  'src/apps/ctl/upgrade': ['upgrade', 'upgrade-*', 'plans-killed'],
  'src/apps/operator': ['operator*'],
  'src/apps/sidecar': ['agent-sidecar'],
  'src/apps/typha': ['agent-typha'],
  'src/base': ['cni', 'netplugctl', 'agent'],
  'src/bgp': ['netplug-bird', 'between-nodes-external-bird', 'between-nodes-fabric', 'between-nodes-repairs'],
  'src/bin': ['cni', 'netplugctl', 'agent', 'controllers', 'operator', 'health-probe'],
  'src/cache': ['agent', 'agent-policy-api', 'controllers'],
  'src/checks': ['ctl-doctor', 'upgrade-hazards', 'install-cluster'],
  'src/cni': ['cni', 'gc', 'bad-input', 'chain', 'many-at-once', 'ipam-under-ptp', 'host-local', 'agent-host-local'],
  'src/config': ['cni', 'bad-input', 'host-local', 'install'],
  'src/dataplane': ['cni', 'gc', 'chain', 'between-nodes-connectivity', 'agent-policy-add'],
  'src/datastore': ['cni', 'ctl-datastore', 'agent-failures', 'restored-etcd'],
  'src/install': ['install', 'install-executables', 'install-cluster', 'operator', 'uninstall-purge', 'rights'],
  'src/ipam': ['cni', 'many-at-once', 'ipam-under-ptp', 'ctl-ipam', 'agent', 'between-nodes-blocks'],
  'src/kube': ['controllers', 'operator', 'agent-plugin-files', 'ctl-resources'],
  'src/mesh': ['agent-sidecar'],
  'src/metrics': ['agent', 'controllers'],
  'src/model': ['cni', 'ctl-resources', 'between-nodes-connectivity', 'agent-policy-api'],
  'src/net': ['cni', 'bad-input', 'host-local'],
  'src/plans': ['plans-killed', 'upgrade', 'uninstall-purge'],
  'src/policy': ['agent-policy-*', 'ctl-policy', 'agent-host-endpoints'],
  'src/routing': ['between-nodes-*'],
  'src/runtime': ['agent', 'controllers-failover', 'operator-lifetime'],
  'src/stream': ['agent-typha'],
  'src/telemetry': ['trace'],
  'src/upgrade': ['upgrade', 'upgrade-*'],
  chart: ['install-cluster'],
  docs: ['tasks'],
  images: ['images'],
  manifests: ['install-cluster', 'rights'],
  native: ['shim', 'cni', 'install-executables', 'health-probe', 'netplug-bird', 'between-nodes-external-bird'],
  packaging: ['deb-package'],
};

/** Returns the patterns for changed files, each once. A changed end-to-end test is touched itself. */
export function touched(changed: readonly string[]): readonly string[] {
  const folders = Object.keys(TOUCHES).toSorted((a, b) => b.length - a.length);
  const patterns = changed.flatMap((file) => {
    const own = /^test\/e2e\/(.*)\.test\.ts$/.exec(file)?.[1];
    if (own !== undefined) return [own];
    const folder = folders.find((each) => file.startsWith(`${each}/`)) ?? '';
    return file.endsWith('.test.ts') ? [] : (TOUCHES[folder] ?? []);
  });
  return [...new Set(patterns)];
}
