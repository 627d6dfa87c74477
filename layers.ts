/** Which folders of src/ each folder may import from. `bin` may see all; scripts/check-layers.ts enforces it. */
const core = ['base', 'net', 'model'];
export const MAY_SEE: Readonly<Record<string, readonly string[]>> = {
  base: [],
  net: ['base'],
  model: ['base', 'net'],
  config: core,
  kube: core,
  bgp: core,
  datastore: core,
  'datastore/memory': [...core, 'datastore'],
  'datastore/kv': [...core, 'config', 'datastore'],
  'datastore/orch': [...core, 'datastore', 'kube'],
  dataplane: ['base', 'net'],
  'dataplane/memory': ['base', 'net', 'dataplane'],
  'dataplane/linux': ['base', 'net', 'dataplane'],
  ipam: [...core, 'config', 'datastore'],
  'ipam/node': [...core, 'config', 'datastore', 'ipam'],
  cni: [...core, 'config', 'datastore', 'ipam', 'dataplane'],
  'apps/agent': [...core, 'config', 'datastore', 'ipam', 'dataplane', 'ipam/node', 'cni', 'kube', 'routing', 'bgp'],
  routing: [...core, 'datastore', 'dataplane'],
  telemetry: ['base', 'cni'],
  'apps/ctl': [...core, 'config', 'kube', 'datastore', 'ipam', 'dataplane', 'ipam/node', 'routing', 'bgp', 'cni'],
};
