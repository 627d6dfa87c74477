import { describe } from 'vitest';
import { expectEachCheck } from '../../../../test/support/checks.ts';
import { ADMISSION_CHECKS } from './admission-checks.ts';
import type { AdmissionFacts } from './admission-facts.ts';

const policyOf = (resource: string, expression: string): string =>
  JSON.stringify({
    matchConstraints: { resourceRules: [{ resources: [resource] }] },
    validations: [{ expression }],
  });
const SHIPPED = { name: 'shipped', rules: policyOf('pods', "!('cni.netplug/floatingIPs' in now)") };
const FACTS: AdmissionFacts = {
  path: '/etc/cni/net.d/10-netplug.conflist',
  switches: [{ name: 'floating_ips', annotation: 'cni.netplug/floatingIPs' }],
  policies: [SHIPPED],
  listError: undefined,
};
const services = { name: 'other', rules: policyOf('services', "!('cni.netplug/floatingIPs' in now)") };
const others = { name: 'other', rules: policyOf('pods', "!('cni.netplug/ipAddrs' in now)") };

describe('doctor checks of admission', () => {
  expectEachCheck(ADMISSION_CHECKS, FACTS, {
    unrestricted: { policies: [services, others] },
    unknown: { policies: undefined, listError: 'it is forbidden' },
  });
});
