import { beforeEach, describe, expect, it } from 'vitest';
import { type CtlCluster, ctlCluster, policyOf, podOf } from '../../../../test/support/ctl-cluster.ts';

let cluster: CtlCluster;
beforeEach(async () => {
  cluster = await ctlCluster([podOf('web', 'n1', ['10.0.0.1/32', 'fd00::1/128']), podOf('done', 'n2', [])]);
});

describe('netplugctl explain endpoint', () => {
  it('lists labels, policies in order with their rules, and profiles', async () => {
    await cluster.apply(
      policyOf('later', { order: 5, selector: 'all()', ingress: [{ action: 'Allow', protocol: 'TCP' }] }),
      policyOf('first', {
        order: 1,
        selector: "app == 'web'",
        types: ['Ingress'],
        ingress: [{ action: 'Log' }, { action: 'Deny', source: { nets: ['192.0.2.0/24'] } }],
      }),
      policyOf('other', { selector: "app == 'other'", types: ['Egress'] }),
      policyOf('closed', { order: 9, selector: "app == 'web'" }),
    );
    expect(await cluster.run('explain endpoint shop/web')).toEqual({
      status: 0,
      err: '',
      out: `shop/web on node n1, interface nplweb
  addresses: 10.0.0.1, fd00::1
  labels, as policies see them
    app=web
    netplug/namespace=shop
    netplug/orchestrator=orch
    pcns.team=a
  ingress: policies in order, then denied
    NetworkPolicy shop/first
      ingress[0]: Log all traffic
      ingress[1]: Deny from 192.0.2.0/24
    NetworkPolicy shop/later
      ingress[0]: Allow TCP
    NetworkPolicy shop/closed: no rules
  egress: no policy applies, profiles decide
  profiles, in order
    kns.shop
      ingress[0]: Allow all traffic
      egress[0]: Allow all traffic
    ksa.shop.default (does not exist)
`,
    });
  });

  it('writes JSON and YAML, and shows a pod that has finished', async () => {
    const { out } = await cluster.run('explain endpoint shop/done -o json');
    expect(JSON.parse(out)).toMatchObject({
      endpoints: [{ pod: 'shop/done', addresses: [], ingress: { policies: [], otherwise: 'profiles decide' } }],
    });
    expect((await cluster.run('explain endpoint shop/done -o yaml')).out).toContain('- pod: shop/done\n');
    expect((await cluster.run('explain endpoint shop/done')).out).toContain('addresses: none: the pod has finished');
  });

  it('lists host endpoints of a node in their order, path by path, with what is always open', async () => {
    const meta = { apiVersion: 'netplug.io/v3', kind: 'HostEndpoint' };
    await cluster.apply(
      { ...meta, metadata: { name: 'all', labels: { role: 'gateway' } }, spec: { node: 'n1', interfaceName: '*' } },
      { ...meta, metadata: { name: 'uplink' }, spec: { node: 'n1', interfaceName: 'eth0', profiles: ['kns.shop'] } },
      {
        apiVersion: 'netplug.io/v3',
        kind: 'AgentConfiguration',
        metadata: { name: 'default' },
        spec: {
          failsafeInboundHostPorts: [{ protocol: 'TCP', port: 22, net: '192.0.2.0/24' }],
          failsafeOutboundHostPorts: [],
        },
      },
      {
        apiVersion: 'netplug.io/v3',
        kind: 'GlobalNetworkPolicy',
        metadata: { name: 'gateway' },
        spec: { selector: "role == 'gateway'", ingress: [{ action: 'Allow', protocol: 'TCP' }] },
      },
    );
    const { status, out } = await cluster.run('explain endpoint host/n1');
    expect(status).toBe(0);
    expect(out.split('\n\n')[0]).toBe(`HostEndpoint uplink of node n1: interface eth0
  labels, as policies see them
    pcns.team=a
  ingress, in order
    always open
      TCP port 22 from 192.0.2.0/24 (failsafe)
    doNotTrack: no policy, packets go on
    preDNAT: no policy, packets go on
    process of the node: no policy, packets as profiles decide
    forwarded: no policy, packets pass
  egress, in order
    always open: nothing
    doNotTrack: no policy, packets go on
    process of the node: no policy, packets as profiles decide
    forwarded: no policy, packets pass
  profiles, in order
    kns.shop
      ingress[0]: Allow all traffic
      egress[0]: Allow all traffic`);
    expect(out).toContain(`HostEndpoint all of node n1: all other interfaces
  labels, as policies see them
    role=gateway
`);
    expect(out).toContain(`    process of the node: policies in order, then denied
      GlobalNetworkPolicy gateway
        ingress[0]: Allow TCP
    forwarded: no policy, packets pass
`);
    expect((await cluster.run('explain endpoint host/n2')).err).toContain('Cannot find a host endpoint of node "n2"');
  });

  it('refuses a pod that does not exist', async () => {
    const { status, err } = await cluster.run('explain endpoint shop/none');
    expect(status).toBe(66);
    expect(err).toContain('Cannot find pod "shop/none"');
  });
});
