// The tables of docs/requirements.md. The bounds that programs check are those of src/model/requirements.ts.
import { markdownTable } from '../src/base/markdown-table.ts';
import { ARCHITECTURES, REQUIREMENTS, SERVICE_PROXY } from '../src/model/requirements.ts';

const TITLES = ['Part', 'Supported', 'Tested', 'Reason of the bound', 'Shown by'];
const TABLES: Readonly<Record<string, readonly (readonly string[])[]>> = {
  cluster: [
    [
      'Kubernetes',
      `${REQUIREMENTS.kubernetes.oldest} to ${REQUIREMENTS.kubernetes.newest}`,
      '1.37.2 every day, 1.34.4 in `soak`',
      'Older releases receive no fixes. netplug uses only APIs that are stable in all of these',
      'every cluster test of `test/e2e`; `KUBERNETES=1.34` selects the older one; `kubernetes-upgrade.test.ts` leads a cluster from one to the other',
    ],
    [
      'etcd as datastore (`kv`)',
      '3.4 to 3.7',
      '3.4.23, 3.6.16, 3.7.3',
      'Debian 12 has 3.4, the oldest release in which a client can choose watch ids',
      'projects `contract` and `contract-oldest-etcd`; `etcd-upgrade.test.ts` goes from 3.6 to 3.7 while pods run',
    ],
    [
      'containerd',
      `${REQUIREMENTS.containerd.oldest} and later`,
      '2.4.2',
      'Older releases do not call STATUS, so a node is ready before netplug is. They are not tested',
      '`containerd.test.ts`, every cluster test',
    ],
    ['podman', '4.3 with its CNI backend', '4.3.1', '5.0 and later have no CNI backend', '`podman.test.ts`'],
    ['runc', '1.2 and later', '1.5.2', 'Pods with user namespaces (`hostUsers: false`)', '`cluster-features.test.ts`'],
    [
      'standard CNI plugins',
      '1.1 and later',
      '1.1.1, 1.9.1',
      '`portmap`, `bandwidth` and `host-local` of Debian 12 are the oldest that the demo runs on. `bandwidth` 1.5.0 and 1.5.1 have [bursts without bounds](networking.md#rates-of-pods)',
      '`chain.test.ts`, `host-local.test.ts`, `make demo`',
    ],
    [
      'kube-proxy',
      SERVICE_PROXY.supported.join(' or '),
      'both',
      `netplug has its own tables and needs neither. IPVS is neither supported nor tested: ${SERVICE_PROXY.notIpvs}. Preflight and \`doctor\` report it (\`cluster/ipvs\`)`,
      '`cluster-features.test.ts` (nftables), `cluster-networking.test.ts` (iptables)',
    ],
    [
      'CoreDNS',
      'any',
      '1.15.0',
      'Runs as pods on the network of netplug',
      '`cluster-features.test.ts`, `sig-network.test.ts`',
    ],
  ],
  node: [
    [
      'Linux',
      `${REQUIREMENTS.kernel.oldest} and later`,
      '6.18',
      'The oldest release that still receives fixes. Kubernetes asks for more: 5.13 for kube-proxy in nftables mode, 6.3 for pods with user namespaces',
      '`doctor` reports `kernel/too-old`; `test/netns`',
    ],
    [
      'glibc',
      '2.28 and later',
      '2.36',
      'On hosts, where the executables run outside of images. `netplug-agent` needs libstdc++ as well',
      '`test/e2e/install-executables` reads the versions that the programs ask for',
    ],
    [
      'BIRD',
      '2.0 and later',
      '2.0.12',
      'Only for pools in BGP mode',
      '`test/netns/bgp-*`, `doctor` reports older ones',
    ],
    [
      'cgroups',
      'version 1 or 2',
      'version 1',
      'netplug does not use them; kubelets of 1.35 and later need `failCgroupV1: false` for version 1',
      'every cluster test',
    ],
    [
      'architecture',
      ARCHITECTURES.join(' and '),
      'amd64',
      'The shim and the addon are C without assembly. Executables for arm64 start under emulation ([images.md](images.md#arm64))',
      '',
    ],
  ],
};

/** Returns the page with the table between each pair of markers as it is declared. */
export function withRequirements(page: string): string {
  return page.replaceAll(
    /(<!-- requirements: (\S+) -->\n)[^]*?(<!-- end -->)/g,
    (_, begin: string, marker: string, end: string) =>
      `${begin}\n${markdownTable(TITLES, TABLES[marker] ?? [])}\n\n${end}`,
  );
}
