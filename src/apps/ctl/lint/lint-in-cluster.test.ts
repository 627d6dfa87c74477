import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type CtlCluster, ctlCluster, dnsCacheAnswers, podOf, policyOf } from '../../../../test/support/ctl-cluster.ts';

let cluster: CtlCluster;
let folder: string;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'netplug-lint-'));
  const dns = podOf('dns', 'n1', ['10.0.0.53/32']);
  cluster = await ctlCluster([
    podOf('web', 'n1', ['10.0.0.1/32']),
    podOf('db', 'n2', ['10.0.0.2/32']),
    { ...dns, metadata: { ...dns.metadata, namespace: 'kube-system', labels: { 'k8s-app': 'kube-dns' } } },
  ]);
});
afterEach(async () => rm(folder, { recursive: true }));

/** Returns path and message of each remark. */
async function remarks(documents: readonly object[], more = ' --cluster'): Promise<readonly string[]> {
  const file = join(folder, 'x.yaml');
  await writeFile(file, documents.map((each) => JSON.stringify(each)).join('\n---\n'));
  const { out, err } = await cluster.run(`lint ${file} -o json${more}`);
  expect(err).toBe('');
  const said = JSON.parse(out) as readonly { path: string; message: string }[];
  return said.map(({ path, message }) => `${path}: ${message}`);
}

const DNS = { action: 'Allow', protocol: 'UDP', destination: { ports: [53] } };

describe('netplugctl lint --cluster', () => {
  it('accepts policies of which every part selects something', async () => {
    const spec = {
      selector: "app == 'db'",
      ingress: [
        { action: 'Allow', protocol: 'TCP', source: { selector: "app == 'web'" }, destination: { ports: ['http'] } },
      ],
      egress: [DNS],
    };
    expect(await remarks([policyOf('db', spec)])).toEqual([]);
  });

  it.each(['', ' --cluster'])(
    'names a policy of a namespace that comes before a global denial, with lint%s',
    async (more) => {
      const allow = [{ action: 'Allow' }];
      const mine = policyOf('mine', { order: -1e9, ingress: allow, egress: [DNS, ...allow] });
      const deny = [{ action: 'Deny' }];
      const spec = { order: 0, selector: 'netplug/namespace == "shop"', ingress: deny, egress: deny };
      const admin = { apiVersion: 'netplug.io/v3', kind: 'GlobalNetworkPolicy', metadata: { name: 'admin' }, spec };
      const found = (await remarks([mine, admin], more)).filter((each) => each.includes('comes before'));
      expect(found).toEqual(
        ['ingress', 'egress'].map(
          (each) =>
            `spec.order: spec.order comes before GlobalNetworkPolicy admin, whose Deny rules do not apply to what it allows (${each})`,
        ),
      );
    },
  );

  it('names selectors that select nothing, and ports that no container has, with their fields', async () => {
    const gone = policyOf('gone', { selector: "app == 'none'", ingress: [{ action: 'Allow' }] });
    const db = policyOf('db', {
      selector: "app == 'db'",
      ingress: [
        { action: 'Allow', protocol: 'TCP', destination: { ports: ['http'] } },
        { action: 'Allow', protocol: 'TCP', destination: { ports: ['sql'] } },
        { action: 'Allow', source: { selector: "app == 'none'" } },
      ],
      egress: [DNS, { action: 'Allow', protocol: 'UDP', destination: { selector: "app == 'web'", ports: ['http'] } }],
    });
    const never = 'never matches now, because its selectors select no pod, host endpoint or network set of the cluster';
    expect(await remarks([gone, db])).toEqual([
      'spec.selector: spec.selector selects no pod and no host endpoint of the cluster',
      'spec.ingress[1]: spec.ingress[1] destination: no container that it selects has a port "sql"',
      `spec.ingress[2]: spec.ingress[2] source: ${never}`,
      'spec.egress[1]: spec.egress[1] destination: no container that it selects has a port "http"',
    ]);
    expect(await remarks([gone, db], '')).toEqual([]);
  });

  it('names the field of a Kubernetes policy, and says so in SARIF', async () => {
    const policy = {
      apiVersion: 'networking.k8s.io/v1',
      kind: 'NetworkPolicy',
      metadata: { name: 'gone', namespace: 'shop' },
      spec: { podSelector: { matchLabels: { app: 'none' } }, ingress: [{}] },
    };
    const [said] = await remarks([policy]);
    expect(said).toBe('spec.podSelector: spec.podSelector selects no pod and no host endpoint of the cluster');
    const { out } = await cluster.run(`lint ${join(folder, 'x.yaml')} --cluster -o sarif`);
    expect(out).toContain('spec.podSelector selects no pod');
  });

  it('names pods without DNS, unless another policy of the files or the cluster allows it', async () => {
    const closed = policyOf('closed', { selector: "app == 'web'", types: ['Egress'] });
    const said = 'spec.egress: spec.egress leaves pods without DNS, with all other policies: shop/web';
    expect(await remarks([closed])).toEqual([said]);
    const dns = policyOf('dns', { selector: 'all()', types: ['Egress'], egress: [DNS] });
    expect(await remarks([closed, dns])).toEqual([]);
    await cluster.apply(dns);
    expect(await remarks([closed])).toEqual([]);
  });

  it('names pods that reach DNS, and not the cache of their node that answers before it', async () => {
    const dns = { action: 'Allow', protocol: 'UDP', destination: { ports: [53], selector: "k8s-app == 'kube-dns'" } };
    const pods = { ...dns, destination: { ...dns.destination, namespaceSelector: 'all()' } };
    const web = (...egress: readonly object[]): object =>
      policyOf('dns', { selector: "app == 'web'", types: ['Egress'], egress });
    expect(await remarks([web(pods)])).toEqual([]);
    cluster.api = dnsCacheAnswers(['169.254.20.10', '10.96.0.10'], { node: 'n2' });
    expect(await remarks([web(pods)])).toEqual([]);
    cluster.api = dnsCacheAnswers(['169.254.20.10', '10.96.0.10']);
    const nets = '169.254.20.10/32 and 10.96.0.10/32';
    expect(await remarks([web(pods)])).toEqual([
      `spec.egress: spec.egress leaves pods without the DNS cache of their node, with all other policies: shop/web; the cache answers before DNS pods do, so allow egress to ${nets}, UDP and TCP port 53, as well`,
    ]);
    const toCache = { action: 'Allow', protocol: 'UDP', destination: { ports: [53], nets: nets.split(' and ') } };
    expect(await remarks([web(pods, toCache)])).toEqual([]);
  });

  it('needs the datastore, and changes nothing', async () => {
    expect((await cluster.run(`lint ${folder} --cluster --fix`)).status).toBe(64);
  });
});
