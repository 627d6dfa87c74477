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

  it('refuses a pod that does not exist', async () => {
    const { status, err } = await cluster.run('explain endpoint shop/none');
    expect(status).toBe(66);
    expect(err).toContain('Cannot find pod "shop/none"');
  });
});
