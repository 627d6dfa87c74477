import { expect, it } from 'vitest';
import type { Rule } from '../model/policy-rule.ts';
import { describeRule } from './describe-rule.ts';
import { resolveRules } from './resolve-rules.ts';

const MANY = ['10.0.0.0/8', '11.0.0.0/8', '12.0.0.0/8', '13.0.0.0/8', '14.0.0.0/8', '15.0.0.0/8'];

it.each<[Rule, string]>([
  [{ action: 'Deny' }, 'Deny all traffic'],
  [{ action: 'Allow', ipVersion: 6, protocol: 'UDP' }, 'Allow IPv6 UDP'],
  [
    {
      action: 'Allow',
      protocol: 'TCP',
      source: { selector: "app == 'a'" },
      destination: { ports: [80, '90:92', 'web'] },
    },
    'Allow TCP from (netplug/namespace == "shop" && app == "a") to ports 80, 90-92, web',
  ],
  [
    {
      action: 'Log',
      notProtocol: 'SCTP',
      destination: { nets: ['10.0.0.0/8'], notNets: ['10.1.0.0/16'], ports: [80] },
    },
    'Log not SCTP to 10.0.0.0/8 except 10.1.0.0/16 port 80',
  ],
  [{ action: 'Pass', source: { nets: MANY } }, 'Pass from 10.0.0.0/8, 11.0.0.0/8, 12.0.0.0/8, 13.0.0.0/8 and 2 more'],
  [
    { action: 'Allow', destination: { services: { name: 'orders' }, notPorts: ['1:9'] } },
    'Allow to service shop/orders except ports 1-9',
  ],
  [
    { action: 'Allow', protocol: 'ICMP', icmp: { type: 8, code: 0 }, notICMP: { type: 3 } },
    'Allow ICMP type 8 code 0 not type 3',
  ],
  [
    { action: 'Deny', protocol: 47, source: { namespaceSelector: 'global()', notSelector: 'has(x)' } },
    'Deny protocol 47 from !has(netplug/namespace) not (has(x))',
  ],
  [
    { action: 'Allow', http: { methods: ['GET', 'HEAD'], paths: [{ exact: '/' }, { prefix: '/items' }] } },
    'Allow TCP requests (GET, HEAD; /, /items and below)',
  ],
  [{ action: 'Allow', http: {}, destination: { notPorts: [22] } }, 'Allow TCP requests to except port 22'],
])('describes %j', (written, text) => {
  const scope = { namespace: 'shop', areNumbered: false, direction: 'ingress', stage: 'normal' } as const;
  expect(resolveRules([written], scope).rules.map(describeRule)).toEqual([text]);
});
