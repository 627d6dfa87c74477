import { beforeEach, describe, expect, it } from 'vitest';
import { type CtlCluster, ctlCluster, podOf, policyOf } from '../../../../test/support/ctl-cluster.ts';
import type { ShownMap } from './shown-map.ts';

let cluster: CtlCluster;

beforeEach(async () => {
  const odd = podOf('odd', 'n2', ['10.0.0.4/32']);
  cluster = await ctlCluster([
    podOf('web', 'n1', ['10.0.0.1/32']),
    podOf('db', 'n2', ['10.0.0.2/32']),
    { ...odd, metadata: { ...odd.metadata, labels: { app: '<script>"&\u0007' } } },
  ]);
  await cluster.apply(
    policyOf('db', {
      selector: "app == 'db'",
      types: ['Ingress'],
      ingress: [
        { action: 'Allow', protocol: 'TCP', source: { selector: "app == 'web'" }, destination: { ports: [5432] } },
      ],
    }),
    policyOf('web', {
      selector: "app == 'web'",
      types: ['Egress'],
      egress: [
        { action: 'Allow', destination: { nets: ['203.0.113.0/24'] } },
        { action: 'Allow', destination: { selector: "app == 'db'" } },
      ],
    }),
  );
});

describe('netplugctl policy map', () => {
  it('prints a table of who reaches whom, with a legend', async () => {
    const { status, out, err } = await cluster.run('policy map');
    expect({ status, err }).toEqual({ status: 0, err: '' });
    expect(out).toBe(`from the row to the column; columns have the numbers of rows

   1 2 3 4 5
1  - . * * *  shop/odd
2  * - * * *  shop/db
3  . a - * .  shop/web
4  * . * - -  203.0.113.0/24
5  * . * - -  other IPv4 addresses

.  nothing
-  not considered: this map asks no policy about it
*  all traffic
a  TCP 5432
`);
  });

  it('shows what only rules about requests allow as some requests', async () => {
    const http = { methods: ['GET'] };
    // Its label is no name.
    const odd = { selector: "app not in {'web', 'db'}" };
    await cluster.apply(
      policyOf('odd', {
        ...odd,
        types: ['Ingress'],
        ingress: [
          { action: 'Allow', protocol: 'TCP', destination: { ports: [8080, 9090] }, http },
          // What follows allows these connections whole.
          { action: 'Allow', protocol: 'TCP', destination: { ports: [9090] } },
        ],
      }),
      policyOf('db', {
        selector: "app == 'db'",
        types: ['Ingress'],
        ingress: [{ action: 'Allow', source: odd, http }],
      }),
    );
    const { groups, cells } = JSON.parse((await cluster.run('policy map -o json')).out) as ShownMap;
    const texts = groups.map(({ text }) => text);
    const between = (from: string, to: string) =>
      cells.find((cell) => cell.from === texts.indexOf(from) && cell.to === texts.indexOf(to))?.traffic;
    expect(between('shop/db', 'shop/odd')).toBe('TCP 9090; some requests over TCP 8080');
    expect(between('shop/odd', 'shop/db')).toBe('some requests over TCP');
    expect(between('shop/db', 'shop/web')).toBe('all traffic');
    // One pod may send any, the others some requests.
    const coarse = JSON.parse((await cluster.run('policy map --by namespace -o json')).out) as ShownMap;
    expect(coarse.cells.find(({ from, to }) => from === to && from === 0)).toMatchObject({
      traffic: 'all traffic',
      isPartial: true,
    });
    expect((await cluster.run('policy map')).out).toContain('some requests over TCP\n');
  });

  it('says that only some ends of a group reach another, and groups by namespace when asked', async () => {
    const { groups, cells } = JSON.parse((await cluster.run('policy map --by namespace -o json')).out) as ShownMap;
    expect(groups.map(({ text }) => text)).toEqual(['all 3 pods', '203.0.113.0/24', 'other IPv4 addresses']);
    expect(cells).toContainEqual({ from: 0, to: 0, traffic: 'all traffic', isPartial: true, sign: 'a' });
    expect(cells).toContainEqual({ from: 0, to: 1, traffic: 'all traffic', isPartial: false, sign: '*' });
  });

  it('has a row for each node with a host endpoint, and one for the others', async () => {
    const meta = { apiVersion: 'netplug.io/v3' };
    await cluster.apply(
      ...['n1', 'n2', 'n3'].map((name, index) => ({
        ...meta,
        kind: 'Node',
        metadata: { name },
        spec: { bgp: { ipv4Address: `192.0.2.${String(index + 1)}/24` } },
      })),
      { ...meta, kind: 'HostEndpoint', metadata: { name: 'h' }, spec: { node: 'n1', interfaceName: '*' } },
    );
    const { groups, cells } = JSON.parse((await cluster.run('policy map -o json')).out) as ShownMap;
    const texts = groups.map(({ text }) => text);
    expect(texts).toContain('2 nodes');
    const [host, odd] = [texts.indexOf('node n1'), texts.indexOf('shop/odd')];
    const toHost = cells.find(({ from, to }) => from === odd && to === host);
    // Nothing applies to the endpoint, so that only failsafe ports are open.
    expect(toHost?.traffic).toContain('TCP 22');
    expect(cells.find(({ from, to }) => from === odd && to === texts.indexOf('2 nodes'))?.traffic).toBe('all traffic');
  });

  it('escapes labels of users in SVG and HTML', async () => {
    for (const format of ['svg', 'html']) {
      const { out } = await cluster.run(`policy map -o ${format}`);
      expect(out).toContain('<title>shop/odd to shop/web: all traffic</title>');
      expect(out).not.toContain('<script>');
    }
    const twin = podOf('twin', 'n2', ['10.0.0.5/32']);
    const labels = { app: '<script>"&\u0007' };
    cluster = await ctlCluster([
      { ...podOf('odd', 'n2', ['10.0.0.4/32']), metadata: { ...twin.metadata, name: 'odd', labels } },
      { ...twin, metadata: { ...twin.metadata, labels } },
      podOf('web', 'n1', ['10.0.0.1/32']),
    ]);
    for (const format of ['svg', 'html']) {
      const { out } = await cluster.run(`policy map -o ${format}`);
      expect(out).toContain('app=&lt;script&gt;&quot;&amp;  (2 pods)');
      expect(out).not.toContain('<script>');
      expect(out).not.toContain('\u0007');
    }
  });

  it('shows one namespace with what it exchanges traffic with', async () => {
    const other = podOf('other', 'n1', ['10.0.0.9/32']);
    const spec = { ...other.spec, profiles: [] };
    cluster = await ctlCluster([
      podOf('web', 'n1', ['10.0.0.1/32']),
      { ...other, metadata: { ...other.metadata, namespace: 'closed' }, spec },
    ]);
    const { groups } = JSON.parse((await cluster.run('policy map -n shop -o json')).out) as ShownMap;
    expect(groups.map(({ text }) => text)).toEqual(['shop/web', 'other IPv4 addresses']);
  });

  it('takes nothing for denied that it was not asked about: what others exchange, and a node with its own pods', async () => {
    const other = podOf('other', 'n1', ['10.0.0.9/32']);
    const dns = podOf('dns', 'n2', ['10.0.0.8/32']);
    const within = (pod: typeof other, namespace: string): typeof other => ({
      ...pod,
      metadata: { ...pod.metadata, namespace },
    });
    cluster = await ctlCluster([podOf('web', 'n1', ['10.0.0.1/32']), within(other, 'front'), within(dns, 'system')]);
    await cluster.apply(
      ...['n1', 'n2'].map((name, index) => ({
        apiVersion: 'netplug.io/v3',
        kind: 'Node',
        metadata: { name },
        spec: { bgp: { ipv4Address: `192.0.2.${String(index + 1)}/24` } },
      })),
      policyOf('web', { selector: "app == 'web'", types: ['Ingress'] }),
    );
    const { groups, cells, notConsidered } = JSON.parse(
      (await cluster.run('policy map -n shop -o json')).out,
    ) as ShownMap;
    const at = (text: string): number => groups.findIndex((group) => group.text === text);
    expect(notConsidered).toContainEqual({ from: at('front/other'), to: at('system/dns') });
    expect(notConsidered).not.toContainEqual({ from: at('front/other'), to: at('shop/web') });
    // Policies let no node in, but the one of the pod needs none.
    expect(cells).toContainEqual(
      expect.objectContaining({ from: at('2 nodes'), to: at('shop/web'), traffic: 'all traffic', isPartial: true }),
    );
  });
});
